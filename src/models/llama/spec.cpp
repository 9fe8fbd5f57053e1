#include "models/llama/spec.h"

#include <cmath>
#include <utility>

namespace coeus::models {
namespace {

constexpr double kStd = 0.02;

Segment matrix(std::string fqn, std::int64_t rows, std::int64_t columns, double std = kStd,
               const Heads& heads = {}) {
  return {std::move(fqn), {rows, columns}, {InitKind::normal, std}, heads};
}

// A parameter that is one segment.
ParameterSpec single(Segment segment) {
  std::string fqn = segment.fqn;
  return {std::move(fqn), {std::move(segment)}};
}

ParameterSpec gain(std::string fqn, std::int64_t dim) {
  return single({std::move(fqn), {dim}, {InitKind::ones, 0.0}});
}

LayerSpec block(const std::string& name, const LlamaConfig& c) {
  const std::int64_t kv_dim = c.num_kv_heads * c.head_dim();
  // Depth-scaled, as in GPT-2: the residual stream then keeps its variance over the blocks.
  const double std_into_residual = kStd / std::sqrt(2.0 * static_cast<double>(c.num_layers));
  const std::string attention = name + ".attention.", mlp = name + ".mlp.";
  return {name,
          {gain(name + ".norm1.weight", c.dim),
           {attention + "qkv.weight",
            {matrix(attention + "q_proj.weight", c.dim, c.dim, kStd, {.rows = c.num_heads}),
             matrix(attention + "k_proj.weight", kv_dim, c.dim, kStd, {.rows = c.num_kv_heads}),
             matrix(attention + "v_proj.weight", kv_dim, c.dim, kStd, {.rows = c.num_kv_heads})}},
           single(matrix(attention + "o_proj.weight", c.dim, c.dim, std_into_residual,
                         {.columns = c.num_heads})),
           gain(name + ".norm2.weight", c.dim),
           {mlp + "gate_up.weight",
            {matrix(mlp + "gate_proj.weight", c.ffn_dim, c.dim),
             matrix(mlp + "up_proj.weight", c.ffn_dim, c.dim)}},
           single(matrix(mlp + "down_proj.weight", c.dim, c.ffn_dim, std_into_residual))}};
}

}  // namespace

ModelSpec llama_spec(const LlamaConfig& c) {
  ModelSpec spec;
  spec.vocab_size = c.vocab_size;
  spec.num_layers = c.num_layers;
  spec.num_heads = c.num_heads;
  spec.head_dim = c.head_dim();
  spec.dim = c.dim;
  spec.layers.push_back({"embed", {single(matrix("embed.weight", c.vocab_size, c.dim))}});
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    spec.layers.push_back(block("blocks." + std::to_string(i), c));
  }
  spec.layers.push_back({"norm", {gain("norm.weight", c.dim)}});
  spec.layers.push_back({"head", {}});
  if (c.tie_embeddings) {
    spec.ties.push_back({"head.weight", "embed.weight"});
  } else {
    spec.layers.back().parameters.push_back(single(matrix("head.weight", c.vocab_size, c.dim)));
  }
  return spec;
}

}  // namespace coeus::models
