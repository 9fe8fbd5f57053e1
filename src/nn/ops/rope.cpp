#include "base/error.h"
#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

// The first and the second element of each pair.
struct Members {
  Tensor first, second;
};

Members members(const Tensor& x_BTHK, RopePairs pairs) {
  const auto size = x_BTHK.size(-1);
  if (pairs == RopePairs::halves) {
    return {x_BTHK.slice(-1, 0, size / 2), x_BTHK.slice(-1, size / 2)};
  }
  return {x_BTHK.slice(-1, 0, size, 2), x_BTHK.slice(-1, 1, size, 2)};
}

// into = from turned by the angles; sign −1 turns back.
void turn(const Members& from, const Rotation& r, double sign, const Members& into) {
  const Tensor a = from.first.to(at::kFloat), b = from.second.to(at::kFloat);
  Tensor first = a * r.cos, second = b * r.cos;
  first.addcmul_(b, r.sin, -sign);
  second.addcmul_(a, r.sin, sign);
  into.first.copy_(first);
  into.second.copy_(second);
}

void turn_halves(const Tensor& x_BTHK, const Rotation& r, double sign, const Tensor& into) {
  turn(members(x_BTHK, RopePairs::halves), r, sign, members(into, RopePairs::halves));
}

struct SplitHeads {
  std::int64_t q, kv;
};

// Of `total` query, key and value heads. Fewer than one whole group: a part of its queries beside a
// copy of its key and value head.
SplitHeads count_heads(std::int64_t total, std::int64_t queries_per_kv) {
  const auto groups = std::max<std::int64_t>(total / (queries_per_kv + 2), 1);
  const SplitHeads heads{total - 2 * groups, groups};
  COEUS_ASSERT(
      heads.q > 0 && heads.q % groups == 0 && (groups == 1 || heads.q == groups * queries_per_kv),
      "the fused projection does not hold whole groups of heads");
  return heads;
}

struct RotateNode : Node {
  Rotation r;
  RopePairs pairs;
  std::vector<std::int64_t> sizes;
  at::TensorOptions options;

  std::string name() const override { return "coeus::Rotate"; }
  void release_variables() override { r = {}; }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(1);
    if (!gradients[0].defined() || !should_compute_output(0)) return out;
    out[0] = at::empty(sizes, options);
    turn(members(gradients[0], RopePairs::halves), r, -1, members(out[0], pairs));
    return out;
  }
};

struct SplitNode : Node {
  Rotation r;
  SplitHeads heads;
  std::vector<std::int64_t> sizes;  // [B, T, H + 2·KV, head_dim]
  at::TensorOptions options;

  std::string name() const override { return "coeus::SplitAndRotate"; }
  void release_variables() override { r = {}; }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(1);
    if (!should_compute_output(0)) return out;
    Tensor dx = at::empty(sizes, options);
    auto part = [&](std::int64_t from, std::int64_t count) {
      return dx.slice(2, from, from + count);
    };
    auto back = [&](const Tensor& g, Tensor into) {
      if (g.defined())
        turn_halves(g, r, -1, into);
      else
        into.zero_();
    };
    back(gradients[0], part(0, heads.q));
    back(gradients[1], part(heads.q, heads.kv));
    Tensor dv = part(heads.q + heads.kv, heads.kv);
    if (gradients[2].defined())
      dv.copy_(gradients[2]);
    else
      dv.zero_();
    out[0] = dx.view({sizes[0], sizes[1], -1});
    return out;
  }
};

}  // namespace

Rotation rotation(const Tensor& positions_BT, const Tensor& inverse_frequencies, double scale) {
  at::NoGradGuard no_grad;
  const Tensor angles =
      positions_BT.to(at::kFloat).unsqueeze(-1).mul(inverse_frequencies).unsqueeze(2);
  if (scale == 1.0) return {angles.cos(), angles.sin()};
  return {angles.cos().mul_(scale), angles.sin().mul_(scale)};
}

Tensor rotate(const Tensor& x_BTHK, const Rotation& r, RopePairs pairs) {
  Tensor y;
  {
    BelowAutograd guard;
    y = at::empty(x_BTHK.sizes(), x_BTHK.options());
    turn(members(x_BTHK, pairs), r, 1, members(y, RopePairs::halves));
  }
  if (forms_gradients(x_BTHK)) {
    auto node = make_node<RotateNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(x_BTHK));
    node->r = r;
    node->pairs = pairs;
    node->sizes = x_BTHK.sizes().vec();
    node->options = x_BTHK.options().requires_grad(std::nullopt);
    torch::autograd::set_history(y, node);
  }
  return y;
}

Qkv split_heads(const Tensor& qkv, std::int64_t head_dim, std::int64_t queries_per_kv) {
  const Tensor x_BTHK = qkv.unflatten(-1, {-1, head_dim});
  const auto heads = count_heads(x_BTHK.size(2), queries_per_kv);
  const auto parts = x_BTHK.split_with_sizes({heads.q, heads.kv, heads.kv}, 2);
  return {parts[0], parts[1], parts[2]};
}

Qkv split_and_rotate(const Tensor& qkv, const Rotation& r, std::int64_t head_dim,
                     std::int64_t queries_per_kv) {
  const auto total = qkv.size(-1) / head_dim;
  const auto heads = count_heads(total, queries_per_kv);
  Qkv out;
  Tensor x;
  {
    BelowAutograd guard;
    x = qkv.view({qkv.size(0), qkv.size(1), total, head_dim});
    out.q = at::empty({x.size(0), x.size(1), heads.q, head_dim}, x.options());
    out.k = at::empty({x.size(0), x.size(1), heads.kv, head_dim}, x.options());
    turn_halves(x.slice(2, 0, heads.q), r, 1, out.q);
    turn_halves(x.slice(2, heads.q, heads.q + heads.kv), r, 1, out.k);
    out.v = x.slice(2, heads.q + heads.kv).alias();
  }
  if (forms_gradients(qkv)) {
    auto node = make_node<SplitNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(qkv));
    node->r = r;
    node->heads = heads;
    node->sizes = x.sizes().vec();
    node->options = x.options().requires_grad(std::nullopt);
    torch::autograd::set_history({out.q, out.k, out.v}, node);
  }
  return out;
}

}  // namespace coeus::nn::ops
