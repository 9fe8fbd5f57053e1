#include "models/llama/spec.h"

#include "models/spec_parts.h"

namespace coeus::models {
namespace {

LayerSpec block(const std::string& name, const LlamaConfig& c) {
  const double std_into_residual = residual_std(c.num_layers);
  LayerSpec layer{name, {gain(name + ".norm1.weight", c.dim)}, {}};
  add_attention(layer, name + ".attention", {c.dim, c.num_heads, c.num_kv_heads, c.head_dim()},
                std_into_residual);
  layer.parameters.push_back(gain(name + ".norm2.weight", c.dim));
  add_swiglu(layer, name + ".mlp", c.dim, c.ffn_dim, std_into_residual);
  return layer;
}

}  // namespace

ModelSpec llama_spec(const LlamaConfig& c) {
  return decoder_spec(c, c.head_dim(),
                      [&](const std::string& name, std::int64_t) { return block(name, c); });
}

}  // namespace coeus::models
