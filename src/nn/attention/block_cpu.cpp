#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "nn/attention/block_kernels.h"

namespace coeus::nn {
namespace {

// [B, T, heads, K] -> [B, H, T, width] fp32: what the kernel takes. Zeros behind the head dim
// change no result.
Tensor operand(const Tensor& x, std::int64_t heads, std::int64_t width) {
  Tensor y = x.to(at::kFloat);
  if (y.size(3) < width) y = at::constant_pad_nd(y, {0, width - y.size(3)});
  if (y.size(2) < heads)
    y = y.unsqueeze(3).expand({-1, -1, -1, heads / y.size(2), -1}).flatten(2, 3);
  return y.transpose(1, 2);
}

// [B, H, S, width] -> [B, S, groups, K], the sum over the heads of a group
Tensor result(const Tensor& x, std::int64_t groups, std::int64_t head_dim) {
  Tensor y = x.transpose(1, 2).narrow(-1, 0, head_dim);
  if (y.size(2) == groups) return y;
  return y.unflatten(2, {groups, -1}).sum(3);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Mask {
  bool causal = false;                // by the kernel itself
  std::optional<Tensor> addend = {};  // [B or 1, 1, T, S] fp32: 0 or −inf
};

Mask mask_of(const Tensor& q, const Block& b, const AttentionContext& c) {
  const bool far = hides_far_keys(b, c.mask);
  if (b.queries == b.keys && c.mask.causal && !far && !c.cu_seqlens.defined())
    return {.causal = true};
  const Tensor seen = visible(q, b, c);
  if (!seen.defined()) return {};
  const Tensor addend = at::zeros(seen.sizes(), q.options().dtype(at::kFloat))
                            .masked_fill_(seen.logical_not(), -kInfinity);
  return {.addend = addend.unsqueeze(1)};
}

std::int64_t width_of(const Tensor& q, const Tensor& v) {
  return std::max(q.size(3), v.size(3));
}

}  // namespace

AttentionOut attend_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                           const AttentionContext& context) {
  const auto heads = q.size(2), width = width_of(q, v);
  const Mask mask = mask_of(q, block, context);
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      operand(q, heads, width), operand(k, heads, width), operand(v, heads, width), 0.0,
      mask.causal, mask.addend, context.scale);
  if (mask.addend) {
    // The kernel gives zeros, but 0 as log-sum-exp, where a query has no key.
    lse = lse.masked_fill(mask.addend->amax(-1).eq(-kInfinity), -kInfinity);
  }
  return {result(out, heads, v.size(3)), lse};
}

QkvGradients attend_on_cpu_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Attended& a, const Block& block,
                                    const AttentionContext& context) {
  const auto heads = q.size(2), width = width_of(q, v);
  const Mask mask = mask_of(q, block, context);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      operand(a.dout, heads, width), operand(q, heads, width), operand(k, heads, width),
      operand(v, heads, width), operand(a.out, heads, width), subtrahend(a.lse), 0.0, mask.causal,
      mask.addend, context.scale);
  return {result(dq, heads, q.size(3)), result(dk, k.size(2), k.size(3)),
          result(dv, v.size(2), v.size(3))};
}

}  // namespace coeus::nn
