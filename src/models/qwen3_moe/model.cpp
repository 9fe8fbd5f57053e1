#include "models/qwen3_moe/model.h"

#include <cmath>

namespace coeus::models {

Qwen3Moe::Qwen3Moe(const Qwen3MoeConfig& c) {
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(c.num_layers));
  const nn::AttentionOptions attention{.num_kv_heads = c.num_kv_heads,
                                       .head_dim = c.head_dim,
                                       .rope = {.theta = c.rope_theta},
                                       .o_proj_std = residual_std,
                                       .qk_norm = true,
                                       .norm_eps = c.norm_eps};
  const nn::MoeOptions moe{.num_experts = c.num_experts,
                           .top_k = c.top_k,
                           .ffn_dim = c.expert_ffn_dim,
                           .normalize_weights = c.normalize_weights,
                           .aux_loss_alpha = c.aux_loss_alpha,
                           .down_std = residual_std};
  append<nn::Embedding>("embed", c.vocab_size, c.dim);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    append<nn::PreNormBlock<nn::Moe>>(
        "blocks." + std::to_string(i), c.dim, c.norm_eps,
        std::make_unique<nn::SelfAttention>(c.dim, c.num_heads, attention), "moe",
        std::make_unique<nn::Moe>(c.dim, moe));
  }
  append<nn::RmsNorm>("norm", c.dim, c.norm_eps);
  append<nn::LmHead>("head", c.dim, c.vocab_size);
  if (c.tie_embeddings) tie("head.weight", "embed.weight");
}

}  // namespace coeus::models
