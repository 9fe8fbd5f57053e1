#include <coeus/nn/attention.h>

#include <limits>

#include "core/torch.h"

namespace coeus::nn {
namespace {

// [B, 1, T, T] additive: 0 where query and key share a document and the key is not later, −inf
// elsewhere.
Tensor document_mask(const AttentionContext& c, std::int64_t batch, std::int64_t length) {
  const Tensor token = at::arange(batch * length, c.cu_seqlens.options().dtype(at::kInt));
  const Tensor document =
      at::searchsorted(c.cu_seqlens, token, false, true).view({batch, 1, length});
  const Tensor position = at::arange(length, token.options());
  Tensor seen = document.unsqueeze(-1).eq(document.unsqueeze(-2));
  if (c.mask.causal) seen = seen.logical_and(position.unsqueeze(-1).ge(position.unsqueeze(0)));
  return at::zeros(seen.sizes(), seen.options().dtype(at::kFloat))
      .masked_fill_(seen.logical_not(), -std::numeric_limits<float>::infinity());
}

Tensor repeat_heads(const Tensor& x_BGSK, std::int64_t heads) {
  const auto groups = x_BGSK.size(1);
  if (groups == heads) return x_BGSK;
  return x_BGSK.unsqueeze(2).expand({-1, -1, heads / groups, -1, -1}).flatten(1, 2);
}

// Plain softmax attention in fp32, on any device.
AttentionOut math(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  double scale) {
  const Tensor scores =
      at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(-1, -2)) * scale + mask;
  const Tensor lse = at::logsumexp(scores, -1);
  const Tensor out =
      at::matmul((scores - lse.unsqueeze(-1)).exp(), v.to(at::kFloat)).to(q.scalar_type());
  return {out, lse};
}

Tensor causal_mask(std::int64_t length, const Tensor& like) {
  return at::full({length, length}, -std::numeric_limits<float>::infinity(),
                  like.options().dtype(at::kFloat).requires_grad(false))
      .triu_(1);
}

AttentionOut on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionContext& c) {
  std::optional<Tensor> mask;
  if (c.cu_seqlens.defined()) mask = document_mask(c, q.size(0), q.size(2));
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      q.to(at::kFloat), repeat_heads(k, q.size(1)).to(at::kFloat),
      repeat_heads(v, q.size(1)).to(at::kFloat), 0.0, !mask && c.mask.causal, mask, c.scale);
  return {out.to(q.scalar_type()), lse};
}

AttentionOut on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionContext& c) {
  if (q.scalar_type() == at::kFloat || q.size(-1) % 8 != 0) {
    const Tensor mask =
        c.cu_seqlens.defined() ? document_mask(c, q.size(0), q.size(2)) : causal_mask(q.size(2), q);
    return math(q, repeat_heads(k, q.size(1)), repeat_heads(v, q.size(1)), mask, c.scale);
  }
  auto result =
      at::_scaled_dot_product_flash_attention(q, k, v, 0.0, c.mask.causal, false, c.scale);
  return {std::get<0>(result), std::get<1>(result)};
}

// Packed documents: every document is a sequence of its own.
AttentionOut documents_on_cuda(const Tensor& q_BTHK, const Tensor& k, const Tensor& v,
                               const AttentionContext& c) {
  auto flat = [](const Tensor& x) { return x.flatten(0, 1); };
  auto result = at::_flash_attention_forward(flat(q_BTHK), flat(k), flat(v), c.cu_seqlens,
                                             c.cu_seqlens, c.max_document, c.max_document, 0.0,
                                             c.mask.causal, false, c.scale);
  const auto sizes = q_BTHK.sizes();
  return {std::get<0>(result).view(sizes),
          std::get<1>(result).view({sizes[2], sizes[0], sizes[1]}).transpose(0, 1)};
}

}  // namespace

AttentionOut DenseAttentionCore::forward(const Tensor& q_BTHK, const Tensor& k_BSGK,
                                         const Tensor& v_BSGK, const AttentionContext& c) {
  if (q_BTHK.is_cuda() && c.cu_seqlens.defined() && q_BTHK.scalar_type() == at::kBFloat16)
    return documents_on_cuda(q_BTHK, k_BSGK, v_BSGK, c);
  const Tensor q = q_BTHK.transpose(1, 2), k = k_BSGK.transpose(1, 2), v = v_BSGK.transpose(1, 2);
  auto [out, lse] = q.is_cuda() ? on_cuda(q, k, v, c) : on_cpu(q, k, v, c);
  return {out.transpose(1, 2), lse};
}

}  // namespace coeus::nn
