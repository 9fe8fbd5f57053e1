#include "models/llama/model.h"

#include <cmath>

namespace coeus::models {

Llama::Llama(const LlamaConfig& c) {
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(c.num_layers));
  const nn::AttentionOptions attention{
      .num_kv_heads = c.num_kv_heads,
      .rope = {.theta = c.rope_theta,
               .factor = c.rope_scaling.factor,
               .low_freq_factor = c.rope_scaling.low_freq_factor,
               .high_freq_factor = c.rope_scaling.high_freq_factor,
               .original_max_position_embeddings = c.rope_scaling.original_max_position_embeddings},
      .o_proj_std = residual_std};
  append<nn::Embedding>("embed", c.vocab_size, c.dim);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    append<nn::PreNormBlock<nn::SwiGlu>>(
        "blocks." + std::to_string(i), c.dim, c.norm_eps,
        std::make_unique<nn::SelfAttention>(c.dim, c.num_heads, attention), "mlp",
        std::make_unique<nn::SwiGlu>(c.dim, c.ffn_dim, residual_std));
  }
  append<nn::RmsNorm>("norm", c.dim, c.norm_eps);
  append<nn::LmHead>("head", c.dim, c.vocab_size);
  if (c.tie_embeddings) tie("head.weight", "embed.weight");
}

}  // namespace coeus::models
