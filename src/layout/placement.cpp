#include "layout/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace coeus {
namespace {

using Kind = Placement::Kind;

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_all_reduced(const Placement& from, const Placement& to) {
  return from.kind == Kind::partial && to.kind == Kind::replicate;
}

bool is_summed(const Placement& from, const Placement& to) {
  return from.kind == Kind::partial && to.kind == Kind::shard;
}

std::string shape_text(const TensorLayout& layout) {
  return fmt::format("[{}]", fmt::join(layout.shape, ", "));
}

void add_faults(const TensorLayout& layout, std::vector<std::string>& faults) {
  if (layout.placements.size() != layout.axes.size()) {
    faults.push_back(
        fmt::format("{} placements for {} axes", layout.placements.size(), layout.axes.size()));
  }
  for (std::size_t k = 0; k < std::min(layout.axes.size(), layout.placements.size()); ++k) {
    const LayoutAxis& axis = layout.axes[k];
    const Placement& placement = layout.placements[k];
    if (axis.degree < 1)
      faults.push_back(fmt::format("axis {} of degree {}", axis.name, axis.degree));
    const auto num_dims = static_cast<std::int64_t>(layout.shape.size());
    if (placement.kind == Kind::shard && (placement.dim < 0 || placement.dim >= num_dims)) {
      faults.push_back(fmt::format("{} over {}: the tensor has {} dims", to_string(placement),
                                   axis.name, num_dims));
    }
  }
}

void add_mismatches(const TensorLayout& from, const TensorLayout& to,
                    std::vector<std::string>& faults) {
  if (from.shape != to.shape) faults.push_back("the shapes differ");
  if (from.axes != to.axes) {
    faults.push_back("the axes differ");
    return;
  }
  for (std::size_t k = 0; k < std::min(from.placements.size(), to.placements.size()); ++k) {
    const Placement &a = from.placements[k], &b = to.placements[k];
    if (b.kind == Kind::partial && a.kind != Kind::partial && k < from.axes.size()) {
      faults.push_back(
          fmt::format("{} cannot become Partial over {}", to_string(a), from.axes[k].name));
    }
  }
}

std::int64_t received_in_all_reduce(const TensorLayout& from, const TensorLayout& to,
                                    const Redistribution& how, const Coordinates& coordinates) {
  if (how.all_reduced.empty()) return 0;
  std::int64_t degree = 1, index = 0;
  for (std::size_t k : how.all_reduced) {
    degree *= from.axes[k].degree;
    index = index * from.axes[k].degree + coordinates[k];
  }
  const bool first = how.order == Redistribution::Order::all_reduce_first;
  const std::int64_t count = part_at(first ? from : to, coordinates).num_elements();
  const std::int64_t mine = shard_range(count, degree, index).size;
  return mine * (degree - 1) + count - mine;
}

}  // namespace

std::string to_string(const Placement& placement) {
  if (placement.kind == Kind::shard) return fmt::format("Shard({})", placement.dim);
  return placement.kind == Kind::replicate ? "Replicate" : "Partial";
}

ShardRange shard_range(std::int64_t size, std::int64_t degree, std::int64_t coordinate) {
  const std::int64_t most = (size + degree - 1) / degree;
  const std::int64_t begin = std::min(coordinate * most, size);
  return {begin, std::min(most, size - begin)};
}

std::int64_t num_ranks(const TensorLayout& layout) {
  std::int64_t ranks = 1;
  for (const LayoutAxis& axis : layout.axes) ranks *= axis.degree;
  return ranks;
}

std::string describe(const TensorLayout& layout) {
  std::vector<std::string> axes;
  for (std::size_t k = 0; k < std::max(layout.axes.size(), layout.placements.size()); ++k) {
    const bool placed = k < layout.placements.size(), named = k < layout.axes.size();
    axes.push_back(fmt::format(
        "{} over {}", placed ? to_string(layout.placements[k]) : "nothing",
        named ? fmt::format("{} {}", layout.axes[k].name, layout.axes[k].degree) : "no axis"));
  }
  return fmt::format("{} as {}", shape_text(layout), fmt::join(axes, ", "));
}

Coordinates coordinates_of(const TensorLayout& layout, std::int64_t rank) {
  Coordinates coordinates(layout.axes.size());
  for (std::size_t k = layout.axes.size(); k-- > 0;) {
    coordinates[k] = rank % layout.axes[k].degree;
    rank /= layout.axes[k].degree;
  }
  return coordinates;
}

std::int64_t TensorPart::num_elements() const {
  return product(shape);
}

TensorPart part_at(const TensorLayout& layout, const Coordinates& coordinates) {
  TensorPart part{std::vector<std::int64_t>(layout.shape.size(), 0), layout.shape};
  for (std::size_t k = 0; k < layout.axes.size(); ++k) {
    if (layout.placements[k].kind != Kind::shard) continue;
    const auto dim = static_cast<std::size_t>(layout.placements[k].dim);
    const auto range = shard_range(part.shape[dim], layout.axes[k].degree, coordinates[k]);
    part.offset[dim] += range.begin;
    part.shape[dim] = range.size;
  }
  return part;
}

TensorPart intersect(const TensorPart& a, const TensorPart& b) {
  TensorPart common = a;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    common.offset[d] = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
    common.shape[d] = std::max<std::int64_t>(0, end - common.offset[d]);
  }
  return common;
}

void check_redistribute(const TensorLayout& from, const TensorLayout& to, std::string_view op) {
  std::vector<std::string> faults;
  add_faults(from, faults);
  add_faults(to, faults);
  add_mismatches(from, to, faults);
  if (faults.empty()) return;
  throw ConfigError(fmt::format("{}: a tensor of {} cannot become {}: {}", op, describe(from),
                                describe(to), fmt::join(faults, "; ")));
}

Redistribution decompose(const TensorLayout& from, const TensorLayout& to) {
  Redistribution how{.all_reduced = {}, .exchange_from = from, .exchange_to = to};
  const Coordinates first(from.axes.size(), 0);  // holds a part as large as any
  const bool before = part_at(from, first).num_elements() <= part_at(to, first).num_elements();
  how.order =
      before ? Redistribution::Order::all_reduce_first : Redistribution::Order::exchange_first;
  for (std::size_t k = 0; k < from.axes.size(); ++k) {
    if (is_summed(from.placements[k], to.placements[k])) how.num_summands *= from.axes[k].degree;
    if (!is_all_reduced(from.placements[k], to.placements[k])) continue;
    how.all_reduced.push_back(k);
    (before ? how.exchange_from : how.exchange_to).placements[k] = before ? replicate() : partial();
  }
  return how;
}

bool is_source(const Redistribution& how, const Coordinates& source, const Coordinates& target) {
  for (std::size_t k = 0; k < source.size(); ++k) {
    const Placement &from = how.exchange_from.placements[k], &to = how.exchange_to.placements[k];
    const bool differs = from.kind == Kind::shard || is_summed(from, to);
    if (!differs && source[k] != target[k]) return false;
  }
  return true;
}

std::int64_t received_elements(const TensorLayout& from, const TensorLayout& to,
                               const Coordinates& coordinates) {
  const Redistribution how = decompose(from, to);
  const TensorPart held = part_at(from, coordinates), target = part_at(to, coordinates);
  return how.num_summands * target.num_elements() - intersect(held, target).num_elements() +
         received_in_all_reduce(from, to, how, coordinates);
}

}  // namespace coeus
