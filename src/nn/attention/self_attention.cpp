#include <coeus/nn/attention.h>

#include <cmath>
#include <numbers>

#include "core/torch.h"
#include "nn/ops/ops.h"

namespace coeus::nn {

std::vector<float> rope_inverse_frequencies(std::int64_t head_dim, const RopeOptions& o) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double f = 1.0 / std::pow(o.theta, 2.0 * i / head_dim);
    if (o.factor != 1.0) {
      const double wavelength = 2 * std::numbers::pi / f,
                   original = o.original_max_position_embeddings;
      const double weight =
          (original / wavelength - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
      if (wavelength > original / o.low_freq_factor) {
        f /= o.factor;
      } else if (wavelength >= original / o.high_freq_factor) {
        f = (1 - weight) * f / o.factor + weight * f;
      }
    }
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

SelfAttention::SelfAttention(std::int64_t dim, std::int64_t num_heads, const AttentionOptions& o)
    : head_dim_(o.head_dim > 0 ? o.head_dim : dim / num_heads),
      queries_per_kv_(o.num_kv_heads > 0 ? num_heads / o.num_kv_heads : 1),
      inverse_frequencies_(at::tensor(rope_inverse_frequencies(head_dim_, o.rope))),
      qkv_(child<Linear>(
          "qkv", dim,
          std::vector<Stack>{
              {"q_proj", num_heads * head_dim_, num_heads},
              {"k_proj", num_heads / queries_per_kv_ * head_dim_, num_heads / queries_per_kv_},
              {"v_proj", num_heads / queries_per_kv_ * head_dim_, num_heads / queries_per_kv_}})),
      q_norm_(o.qk_norm ? &child<RmsNorm>("q_norm", head_dim_, o.norm_eps) : nullptr),
      k_norm_(o.qk_norm ? &child<RmsNorm>("k_norm", head_dim_, o.norm_eps) : nullptr),
      core_(seam<AttentionCore, DenseAttentionCore>("core")),
      mask_(o.mask),
      o_proj_(child<Linear>("o_proj", num_heads * head_dim_, dim, o.o_proj_std,
                            Heads{.columns = num_heads})) {}

std::tuple<Tensor, Tensor, Tensor> SelfAttention::queries_keys_values(const Tensor& x_BTD,
                                                                      const Batch& batch) {
  if (inverse_frequencies_.device() != x_BTD.device())
    inverse_frequencies_ = inverse_frequencies_.to(x_BTD.device());
  const auto rotation = ops::rotation(batch.positions, inverse_frequencies_);
  if (q_norm_ == nullptr) {
    const auto [q, k, v] = ops::split_and_rotate(qkv_(x_BTD), rotation, head_dim_, queries_per_kv_);
    return {q, k, v};
  }
  const auto [q, k, v] = ops::split_heads(qkv_(x_BTD), head_dim_, queries_per_kv_);
  return {ops::rotate((*q_norm_)(q), rotation, ops::RopePairs::halves),
          ops::rotate((*k_norm_)(k), rotation, ops::RopePairs::halves), v};
}

Tensor SelfAttention::forward(const Tensor& x_BTD, const Batch& batch) {
  const auto [q, k, v] = queries_keys_values(x_BTD, batch);
  const AttentionContext context{.mask = mask_,
                                 .cu_seqlens = batch.cu_seqlens,
                                 .max_document = batch.max_document,
                                 .positions = batch.positions,
                                 .token_index = batch.token_index,
                                 .sequence_length = batch.sequence_length,
                                 .scale = 1.0 / std::sqrt(static_cast<double>(head_dim_))};
  const AttentionOut attended = core_(q, k, v, context);
  return o_proj_(attended.out.flatten(2));
}

}  // namespace coeus::nn
