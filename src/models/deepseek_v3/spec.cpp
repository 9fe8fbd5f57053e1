#include "models/deepseek_v3/spec.h"

#include "models/spec_parts.h"

namespace coeus::models {
namespace {

// nn::Mla, named `name`.
void add_mla(LayerSpec& layer, const std::string& name, const DeepseekV3Config& c,
             double o_proj_std) {
  auto& parameters = layer.parameters;
  const Heads heads{.rows = c.num_heads};
  const std::int64_t q_dim = c.num_heads * c.qk_head_dim();
  if (c.q_lora_rank > 0) {
    parameters.push_back(single(matrix(name + ".q_a_proj.weight", c.q_lora_rank, c.dim)));
    parameters.push_back(gain(name + ".q_a_norm.weight", c.q_lora_rank));
    parameters.push_back(
        single(matrix(name + ".q_b_proj.weight", q_dim, c.q_lora_rank, kInitStd, heads)));
  } else {
    parameters.push_back(single(matrix(name + ".q_proj.weight", q_dim, c.dim, kInitStd, heads)));
  }
  parameters.push_back(
      single(matrix(name + ".kv_a_proj.weight", c.kv_lora_rank + c.qk_rope_head_dim, c.dim)));
  parameters.push_back(gain(name + ".kv_a_norm.weight", c.kv_lora_rank));
  parameters.push_back(
      single(matrix(name + ".kv_b_proj.weight", c.num_heads * (c.qk_nope_head_dim + c.v_head_dim),
                    c.kv_lora_rank, kInitStd, heads)));
  parameters.push_back(single(matrix(name + ".o_proj.weight", c.dim, c.num_heads * c.v_head_dim,
                                     o_proj_std, {.columns = c.num_heads})));
}

LayerSpec block(const std::string& name, std::int64_t i, const DeepseekV3Config& c) {
  const double std_into_residual = residual_std(c.num_layers);
  LayerSpec layer{name, {gain(name + ".norm1.weight", c.dim)}, {}};
  add_mla(layer, name + ".attention", c, std_into_residual);
  layer.parameters.push_back(gain(name + ".norm2.weight", c.dim));
  if (c.has_experts(i)) {
    add_moe(layer, name + ".moe",
            {.dim = c.dim,
             .num_experts = c.num_experts,
             .ffn_dim = c.expert_ffn_dim,
             .shared_ffn_dim = c.num_shared_experts * c.expert_ffn_dim,
             .bias_balancing = true},
            std_into_residual);
  } else {
    add_swiglu(layer, name + ".mlp", c.dim, c.ffn_dim, std_into_residual);
  }
  return layer;
}

}  // namespace

ModelSpec deepseek_v3_spec(const DeepseekV3Config& c) {
  // Scores cost qk_head_dim, their use v_head_dim: the mean of both counts both.
  ModelSpec spec =
      decoder_spec(c, (c.qk_head_dim() + c.v_head_dim) / 2,
                   [&](const std::string& name, std::int64_t i) { return block(name, i, c); });
  spec.num_experts = c.num_experts;
  spec.top_k = c.top_k;
  return spec;
}

}  // namespace coeus::models
