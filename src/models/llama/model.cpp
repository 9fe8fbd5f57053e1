// B batch, T tokens, D model width
#include "models/llama/model.h"

#include <cmath>

namespace coeus::models {
namespace {

class Block : public nn::Layer {
 public:
  Block(const LlamaConfig& c, const nn::AttentionOptions& attention, double residual_std)
      : norm1_(child<nn::RmsNorm>("norm1", c.dim, c.norm_eps)),
        attention_(child<nn::SelfAttention>("attention", c.dim, c.num_heads, attention)),
        norm2_(child<nn::RmsNorm>("norm2", c.dim, c.norm_eps)),
        mlp_(child<nn::SwiGlu>("mlp", c.dim, c.ffn_dim, residual_std)) {}

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override {
    const Tensor h_BTD = x_BTD + attention_(norm1_(x_BTD), batch);
    return h_BTD + mlp_(norm2_(h_BTD));
  }
  nn::RmsNorm& norm1_;
  nn::SelfAttention& attention_;
  nn::RmsNorm& norm2_;
  nn::SwiGlu& mlp_;
};

}  // namespace

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
  for (std::int64_t i = 0; i < c.num_layers; ++i)
    append<Block>("blocks." + std::to_string(i), c, attention, residual_std);
  append<nn::RmsNorm>("norm", c.dim, c.norm_eps);
  append<nn::LmHead>("head", c.dim, c.vocab_size);
  if (c.tie_embeddings) tie("head.weight", "embed.weight");
}

}  // namespace coeus::models
