#include "models/qwen3_moe/spec.h"

#include "models/spec_parts.h"

namespace coeus::models {
namespace {

LayerSpec block(const std::string& name, const Qwen3MoeConfig& c) {
  const double std_into_residual = residual_std(c.num_layers);
  LayerSpec layer{name, {gain(name + ".norm1.weight", c.dim)}, {}};
  add_attention(layer, name + ".attention", {c.dim, c.num_heads, c.num_kv_heads, c.head_dim, true},
                std_into_residual);
  layer.parameters.push_back(gain(name + ".norm2.weight", c.dim));
  add_moe(layer, name + ".moe", {c.dim, c.num_experts, c.expert_ffn_dim}, std_into_residual);
  return layer;
}

}  // namespace

ModelSpec qwen3_moe_spec(const Qwen3MoeConfig& c) {
  ModelSpec spec = decoder_spec(
      c, c.head_dim, [&](const std::string& name, std::int64_t) { return block(name, c); });
  spec.num_experts = c.num_experts;
  spec.top_k = c.top_k;
  return spec;
}

}  // namespace coeus::models
