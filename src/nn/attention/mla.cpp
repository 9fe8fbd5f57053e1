// B batch, T tokens, D model width, H heads, C latent, N and R the part of a query that RoPE leaves
// and turns, K = N + R, V value width
#include <coeus/nn/mla.h>

#include <cmath>

#include "core/torch.h"
#include "nn/attention/yarn.h"
#include "nn/ops/ops.h"

namespace coeus::nn {

Mla::Mla(std::int64_t dim, std::int64_t num_heads, const MlaOptions& o)
    : nope_dim_(o.qk_nope_head_dim),
      rope_dim_(o.qk_rope_head_dim),
      v_dim_(o.v_head_dim),
      kv_lora_rank_(o.kv_lora_rank),
      rotation_scale_(yarn_rotation_scale(o.yarn)),
      score_scale_(yarn_score_scale(o.yarn) /
                   std::sqrt(static_cast<double>(nope_dim_ + rope_dim_))),
      inverse_frequencies_(at::tensor(yarn_inverse_frequencies(rope_dim_, o.rope_theta, o.yarn))),
      q_proj_(o.q_lora_rank > 0 ? nullptr
                                : &child<Linear>("q_proj", dim, num_heads * (nope_dim_ + rope_dim_),
                                                 0.02, Heads{.rows = num_heads})),
      q_a_proj_(o.q_lora_rank > 0 ? &child<Linear>("q_a_proj", dim, o.q_lora_rank) : nullptr),
      q_a_norm_(o.q_lora_rank > 0 ? &child<RmsNorm>("q_a_norm", o.q_lora_rank, o.norm_eps)
                                  : nullptr),
      q_b_proj_(o.q_lora_rank > 0
                    ? &child<Linear>("q_b_proj", o.q_lora_rank, num_heads * (nope_dim_ + rope_dim_),
                                     0.02, Heads{.rows = num_heads})
                    : nullptr),
      kv_a_proj_(child<Linear>("kv_a_proj", dim, kv_lora_rank_ + rope_dim_)),
      kv_a_norm_(child<RmsNorm>("kv_a_norm", kv_lora_rank_, o.norm_eps)),
      kv_b_proj_(child<Linear>("kv_b_proj", kv_lora_rank_, num_heads * (nope_dim_ + v_dim_), 0.02,
                               Heads{.rows = num_heads})),
      core_(seam<AttentionCore, DenseAttentionCore>("core")),
      mask_(o.mask),
      o_proj_(child<Linear>("o_proj", num_heads * v_dim_, dim, o.o_proj_std,
                            Heads{.columns = num_heads})) {}

Tensor Mla::queries(const Tensor& x_BTD) {
  if (q_proj_ != nullptr) return (*q_proj_)(x_BTD);
  return (*q_b_proj_)((*q_a_norm_)((*q_a_proj_)(x_BTD)));
}

Tensor Mla::forward(const Tensor& x_BTD, const Batch& batch) {
  if (inverse_frequencies_.device() != x_BTD.device())
    inverse_frequencies_ = inverse_frequencies_.to(x_BTD.device());
  const auto rotation = ops::rotation(batch.positions, inverse_frequencies_, rotation_scale_);
  const auto rotate = [&](const Tensor& x) {
    return ops::rotate(x, rotation, ops::RopePairs::neighbours);
  };
  const auto q = queries(x_BTD)
                     .unflatten(-1, {-1, nope_dim_ + rope_dim_})
                     .split_with_sizes({nope_dim_, rope_dim_}, -1);
  const auto latent = kv_a_proj_(x_BTD).split_with_sizes({kv_lora_rank_, rope_dim_}, -1);
  const auto kv = kv_b_proj_(kv_a_norm_(latent[0]))
                      .unflatten(-1, {-1, nope_dim_ + v_dim_})
                      .split_with_sizes({nope_dim_, v_dim_}, -1);
  const auto heads = kv[0].size(2);  // all, or those of this rank
  const Tensor k_rope_BTHR = rotate(latent[1].unsqueeze(2)).expand({-1, -1, heads, -1});
  const AttentionContext context{.mask = mask_,
                                 .cu_seqlens = batch.cu_seqlens,
                                 .max_document = batch.max_document,
                                 .positions = batch.positions,
                                 .token_index = batch.token_index,
                                 .sequence_length = batch.sequence_length,
                                 .scale = score_scale_};
  const AttentionOut attended =
      core_(at::cat({q[0], rotate(q[1])}, -1), at::cat({kv[0], k_rope_BTHR}, -1), kv[1], context);
  return o_proj_(attended.out.flatten(2));
}

}  // namespace coeus::nn
