#include "parallel/move_parts.h"

#include <algorithm>

#include "core/torch.h"

namespace coeus::parallel {
namespace {

using Kind = Placement::Kind;
using comm::Communicator;
using comm::ReduceOp;

at::ScalarType sum_dtype(at::ScalarType dtype) {
  return at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
}

std::size_t index(std::int64_t rank) {
  return static_cast<std::size_t>(rank);
}

// `block` of the whole tensor as a view of `t`, which holds `part`.
Tensor view_of(const Tensor& t, const TensorPart& part, const TensorPart& block) {
  Tensor view = t;
  for (std::size_t d = 0; d < block.shape.size(); ++d) {
    view =
        view.narrow(static_cast<std::int64_t>(d), block.offset[d] - part.offset[d], block.shape[d]);
  }
  return view;
}

// --- one axis, by the collective made for it

// n parts [.., L, ..] -> [.., n·L, ..]
Tensor gather_even(const Tensor& x, std::int64_t dim, Communicator& axis,
                   const std::string& label) {
  auto sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), axis.size());
  const Tensor parts = at::empty(sizes, x.options());
  axis.all_gather(parts, x.contiguous(), {.label = label}).wait();
  return parts.movedim(0, dim).flatten(dim, dim + 1).contiguous();
}

// Parts of any size, without padding: each rank broadcasts its own.
Tensor gather_uneven(const Tensor& x, const TensorLayout& from, Communicator& axis,
                     const std::string& label) {
  const std::int64_t dim = from.placements[0].dim, size = from.shape[index(dim)];
  auto sizes = from.shape;
  std::rotate(sizes.begin(), sizes.begin() + dim, sizes.begin() + dim + 1);
  const Tensor rows = at::empty(sizes, x.options());  // `dim` first
  const ShardRange mine = shard_range(size, axis.size(), axis.rank());
  rows.narrow(0, mine.begin, mine.size).copy_(x.movedim(dim, 0));
  std::vector<comm::Work> pending;
  axis.group_begin();
  for (int r = 0; r < axis.size(); ++r) {
    const ShardRange range = shard_range(size, axis.size(), r);
    if (range.size == 0) break;
    pending.push_back(axis.broadcast(rows.narrow(0, range.begin, range.size), r, {.label = label}));
  }
  axis.group_end();
  for (auto& work : pending) work.wait();
  return rows.movedim(0, dim).contiguous();
}

// [.., n·L, ..] -> the sum of all ranks' own part [.., L, ..]
Tensor reduce_scatter_even(const Tensor& x, std::int64_t dim, Communicator& axis,
                           const std::string& label) {
  const std::int64_t size = x.size(dim) / axis.size();
  const Tensor parts = x.unflatten(dim, {axis.size(), size}).movedim(dim, 0).contiguous();
  const Tensor out = at::empty(parts.sizes().slice(1), x.options());
  axis.reduce_scatter(out, parts, ReduceOp::sum, {.label = label}).wait();
  return out;
}

// --- any number of axes

// The ranks that differ from `me` along `axes` only, in order.
std::vector<std::int64_t> group_along(const TensorLayout& layout,
                                      const std::vector<std::size_t>& axes, std::int64_t me) {
  const Coordinates mine = coordinates_of(layout, me);
  std::vector<std::int64_t> group;
  for (std::int64_t rank = 0; rank < num_ranks(layout); ++rank) {
    Coordinates other = coordinates_of(layout, rank);
    for (std::size_t k : axes) other[k] = mine[k];
    if (other == mine) group.push_back(rank);
  }
  return group;
}

// Reduce-scatter, then all-gather, of flat parts within a group of the mesh.
Tensor all_reduce(const Tensor& x, const TensorLayout& layout, const std::vector<std::size_t>& axes,
                  Communicator& mesh, const std::string& label) {
  const auto group = group_along(layout, axes, mesh.rank());
  const auto n = static_cast<std::int64_t>(group.size());
  if (n == 1) return x;  // on every rank alike; a group without elements joins the others' calls
  if (n == mesh.size()) {
    Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    mesh.all_reduce(sum, ReduceOp::sum, {.label = label}).wait();
    return sum;
  }
  const Tensor flat = x.reshape(-1);
  const auto me = std::find(group.begin(), group.end(), mesh.rank()) - group.begin();
  const std::int64_t mine = shard_range(flat.numel(), n, me).size;
  std::vector<std::int64_t> whole(index(mesh.size())), own(index(mesh.size()));
  for (std::int64_t i = 0; i < n; ++i) {
    whole[index(group[index(i)])] = shard_range(flat.numel(), n, i).size;
    own[index(group[index(i)])] = mine;
  }
  const Tensor summands = at::empty({n * mine}, x.options());
  mesh.all_to_all(summands, flat, own, whole, {.label = label}).wait();
  const Tensor sum = summands.view({n, mine}).sum(0, false, x.scalar_type());
  const Tensor result = at::empty_like(flat);
  mesh.all_to_all(result, sum.repeat({n}), whole, own, {.label = label}).wait();
  return result.view(x.sizes());
}

// What each rank sends to and receives from each other, as elements in row-major order.
struct Traffic {
  TensorPart held, target;  // of this rank
  std::vector<TensorPart> sent = {},
                          received = {};  // by peer; of no elements where nothing travels
  std::int64_t num_summands = 1;
  bool any = false;  // on some rank
};

Traffic plan_traffic(const Redistribution& how, int me) {
  const TensorLayout &from = how.exchange_from, &to = how.exchange_to;
  const Coordinates mine = coordinates_of(from, me);
  Traffic traffic{
      .held = part_at(from, mine), .target = part_at(to, mine), .num_summands = how.num_summands};
  const TensorPart nothing{{0}, {0}};
  for (std::int64_t rank = 0; rank < num_ranks(from); ++rank) {
    const Coordinates other = coordinates_of(from, rank);
    const TensorPart held = part_at(from, other), target = part_at(to, other);
    traffic.any |= received_elements(from, to, other) > 0;
    traffic.sent.push_back(is_source(how, mine, other) ? intersect(traffic.held, target) : nothing);
    traffic.received.push_back(is_source(how, other, mine) ? intersect(held, traffic.target)
                                                           : nothing);
  }
  return traffic;
}

// The target part from what was received, in rank order, and what this rank held itself.
Tensor assemble(const Tensor& x, const Tensor& received, const Traffic& traffic, int me) {
  const bool moves = traffic.num_summands == 1;
  const at::ScalarType dtype = moves ? x.scalar_type() : sum_dtype(x.scalar_type());
  const auto options = x.options().dtype(dtype);
  const Tensor target =
      moves ? at::empty(traffic.target.shape, options) : at::zeros(traffic.target.shape, options);
  std::int64_t begin = 0;
  for (int r = 0; r < static_cast<int>(traffic.received.size()); ++r) {
    const TensorPart& block = traffic.received[index(r)];
    const std::int64_t count = block.num_elements();
    if (count == 0) continue;
    const Tensor piece = r == me ? view_of(x, traffic.held, block)
                                 : received.narrow(0, begin, count).view(block.shape);
    if (r != me) begin += count;
    const Tensor place = view_of(target, traffic.target, block);
    if (moves) {
      place.copy_(piece);
    } else {
      place.add_(piece);
    }
  }
  return target.to(x.scalar_type());
}

Tensor exchange(const Tensor& x, const Redistribution& how, Communicator& mesh,
                const std::string& label) {
  const int me = mesh.rank();
  const Traffic traffic = plan_traffic(how, me);
  std::vector<std::int64_t> send_rows, receive_rows;
  std::vector<Tensor> pieces = {at::empty({0}, x.options())};
  std::int64_t num_received = 0;
  for (int r = 0; r < mesh.size(); ++r) {
    const TensorPart& sent = traffic.sent[index(r)];
    send_rows.push_back(r == me ? 0 : sent.num_elements());
    receive_rows.push_back(r == me ? 0 : traffic.received[index(r)].num_elements());
    num_received += receive_rows.back();
    if (send_rows.back() > 0) pieces.push_back(view_of(x, traffic.held, sent).reshape(-1));
  }
  const Tensor received = at::empty({num_received}, x.options());
  if (traffic.any) {
    mesh.all_to_all(received, at::cat(pieces), receive_rows, send_rows, {.label = label}).wait();
  }
  return assemble(x, received, traffic, me);
}

}  // namespace

Tensor move_parts(const Tensor& x, const TensorLayout& from, const TensorLayout& to,
                  comm::Communicator& mesh, const std::string& label) {
  if (from.placements == to.placements || mesh.size() == 1) return x;
  const Coordinates mine = coordinates_of(to, mesh.rank());
  if (TensorPart{{}, to.shape}.num_elements() == 0) {
    return at::empty(part_at(to, mine).shape, x.options());
  }
  if (from.axes.size() == 1) {
    const Placement &a = from.placements[0], &b = to.placements[0];
    const std::int64_t dim = a.kind == Kind::shard ? a.dim : b.dim;
    const bool even = dim >= 0 && from.shape[index(dim)] % mesh.size() == 0;
    if (a.kind == Kind::shard && b.kind == Kind::replicate) {
      return even ? gather_even(x, dim, mesh, label) : gather_uneven(x, from, mesh, label);
    }
    if (a.kind == Kind::partial && b.kind == Kind::shard && even) {
      return reduce_scatter_even(x, dim, mesh, label);
    }
  }
  const Redistribution how = decompose(from, to);
  Tensor y = x;
  if (how.order == Redistribution::Order::all_reduce_first) {
    y = all_reduce(y, from, how.all_reduced, mesh, label);
  }
  if (how.exchange_from.placements != how.exchange_to.placements) {
    y = exchange(y, how, mesh, label);
  }
  if (how.order == Redistribution::Order::exchange_first) {
    y = all_reduce(y, to, how.all_reduced, mesh, label);
  }
  return y;
}

}  // namespace coeus::parallel
