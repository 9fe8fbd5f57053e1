#include "base/error.h"
#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

// into = x turned by the angles (half-split pairs i, i + head_dim/2); sign −1 turns back.
void rotate(const Tensor& x_BTHK, const Rotation& r, double sign, Tensor into) {
  const auto half = x_BTHK.size(-1) / 2;
  const Tensor a = x_BTHK.slice(-1, 0, half).to(at::kFloat),
               b = x_BTHK.slice(-1, half).to(at::kFloat);
  Tensor low = a * r.cos, high = b * r.cos;
  low.addcmul_(b, r.sin, -sign);
  high.addcmul_(a, r.sin, sign);
  into.slice(-1, 0, half).copy_(low);
  into.slice(-1, half).copy_(high);
}

struct SplitHeads {
  std::int64_t q, kv;
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
        rotate(g, r, -1, into);
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

Rotation rotation(const Tensor& positions_BT, const Tensor& inverse_frequencies) {
  at::NoGradGuard no_grad;
  const Tensor angles =
      positions_BT.to(at::kFloat).unsqueeze(-1).mul(inverse_frequencies).unsqueeze(2);
  return {angles.cos(), angles.sin()};
}

Qkv split_and_rotate(const Tensor& qkv, const Rotation& r, std::int64_t head_dim,
                     std::int64_t queries_per_kv) {
  const auto total = qkv.size(-1) / head_dim;
  // Fewer heads than one whole group: a part of its queries beside a copy of its key and value
  // head.
  const auto groups = std::max<std::int64_t>(total / (queries_per_kv + 2), 1);
  const SplitHeads heads{total - 2 * groups, groups};
  COEUS_ASSERT(
      heads.q > 0 && heads.q % groups == 0 && (groups == 1 || heads.q == groups * queries_per_kv),
      "the fused projection does not hold whole groups of heads");
  Qkv out;
  Tensor x;
  {
    BelowAutograd guard;
    x = qkv.view({qkv.size(0), qkv.size(1), total, head_dim});
    out.q = at::empty({x.size(0), x.size(1), heads.q, head_dim}, x.options());
    out.k = at::empty({x.size(0), x.size(1), heads.kv, head_dim}, x.options());
    rotate(x.slice(2, 0, heads.q), r, 1, out.q);
    rotate(x.slice(2, heads.q, heads.q + heads.kv), r, 1, out.k);
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
