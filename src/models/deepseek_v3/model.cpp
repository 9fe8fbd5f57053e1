#include "models/deepseek_v3/model.h"

#include <cmath>

namespace coeus::models {
namespace {

// Of the latents: transformers has it fixed, whatever rms_norm_eps says.
constexpr double kLatentNormEps = 1e-6;

nn::MlaOptions attention_options(const DeepseekV3Config& c, double residual_std) {
  return {
      .q_lora_rank = c.q_lora_rank,
      .kv_lora_rank = c.kv_lora_rank,
      .qk_nope_head_dim = c.qk_nope_head_dim,
      .qk_rope_head_dim = c.qk_rope_head_dim,
      .v_head_dim = c.v_head_dim,
      .rope_theta = c.rope_theta,
      .yarn = {.factor = c.rope_scaling.factor,
               .beta_fast = c.rope_scaling.beta_fast,
               .beta_slow = c.rope_scaling.beta_slow,
               .mscale = c.rope_scaling.mscale,
               .mscale_all_dim = c.rope_scaling.mscale_all_dim,
               .original_max_position_embeddings = c.rope_scaling.original_max_position_embeddings},
      .norm_eps = kLatentNormEps,
      .o_proj_std = residual_std};
}

nn::MoeOptions moe_options(const DeepseekV3Config& c, double residual_std) {
  return {.num_experts = c.num_experts,
          .top_k = c.top_k,
          .ffn_dim = c.expert_ffn_dim,
          .shared_ffn_dim = c.num_shared_experts * c.expert_ffn_dim,
          .score = nn::RouterScore::sigmoid,
          .normalize_weights = c.normalize_weights,
          .route_scale = c.route_scale,
          .num_groups = c.num_groups,
          .num_limited_groups = c.num_limited_groups,
          .aux_loss_alpha = c.aux_loss_alpha,
          .bias_balancing = true,
          .bias_update_speed = c.bias_update_speed,
          .down_std = residual_std};
}

}  // namespace

DeepseekV3::DeepseekV3(const DeepseekV3Config& c) {
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(c.num_layers));
  append<nn::Embedding>("embed", c.vocab_size, c.dim);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    auto attention =
        std::make_unique<nn::Mla>(c.dim, c.num_heads, attention_options(c, residual_std));
    if (c.has_experts(i)) {
      append<nn::PreNormBlock<nn::Moe>>(
          name, c.dim, c.norm_eps, std::move(attention), "moe",
          std::make_unique<nn::Moe>(c.dim, moe_options(c, residual_std)));
    } else {
      append<nn::PreNormBlock<nn::SwiGlu>>(
          name, c.dim, c.norm_eps, std::move(attention), "mlp",
          std::make_unique<nn::SwiGlu>(c.dim, c.ffn_dim, residual_std));
    }
  }
  append<nn::RmsNorm>("norm", c.dim, c.norm_eps);
  append<nn::LmHead>("head", c.dim, c.vocab_size);
  if (c.tie_embeddings) tie("head.weight", "embed.weight");
}

}  // namespace coeus::models
