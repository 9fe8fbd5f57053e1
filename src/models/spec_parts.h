#pragma once
#include <string>

#include "layout/segments.h"

// The parameters of the layers of nn, in the order and with the initial values with which those
// register them.
namespace coeus::models {

constexpr double kInitStd = 0.02;
// Of what is added to the residual stream; depth-scaled as in GPT-2: the stream then keeps its
// variance over the blocks.
double residual_std(std::int64_t num_layers);

Segment matrix(std::string fqn, std::int64_t rows, std::int64_t columns, double std = kInitStd,
               const Heads& heads = {});
// A parameter that is one segment.
ParameterSpec single(Segment segment);
ParameterSpec gain(std::string fqn, std::int64_t dim);

// nn::SelfAttention, named `name`.
struct AttentionShape {
  std::int64_t dim, num_heads, num_kv_heads, head_dim;
  bool qk_norm = false;
};
void add_attention(LayerSpec& layer, const std::string& name, const AttentionShape& shape,
                   double o_proj_std);
// nn::SwiGlu, named `name`.
void add_swiglu(LayerSpec& layer, const std::string& name, std::int64_t dim, std::int64_t ffn_dim,
                double down_std);
// nn::Moe, named `name`.
struct MoeShape {
  std::int64_t dim, num_experts, ffn_dim, shared_ffn_dim = 0;
  bool bias_balancing = false;
};
void add_moe(LayerSpec& layer, const std::string& name, const MoeShape& shape, double down_std);

// The chain embed, blocks.N, norm, head of a config with dim, num_layers, num_heads, vocab_size and
// tie_embeddings; `block(name, i)` gives the layer of each block.
template <class C, class Block>
ModelSpec decoder_spec(const C& c, std::int64_t head_dim, Block block) {
  ModelSpec spec;
  spec.vocab_size = c.vocab_size;
  spec.num_layers = c.num_layers;
  spec.num_heads = c.num_heads;
  spec.head_dim = head_dim;
  spec.dim = c.dim;
  spec.layers.push_back({"embed", {single(matrix("embed.weight", c.vocab_size, c.dim))}, {}});
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    spec.layers.push_back(block("blocks." + std::to_string(i), i));
  }
  spec.layers.push_back({"norm", {gain("norm.weight", c.dim)}, {}});
  spec.layers.push_back({"head", {}, {}});
  if (c.tie_embeddings) {
    spec.ties.push_back({"head.weight", "embed.weight"});
  } else {
    spec.layers.back().parameters.push_back(single(matrix("head.weight", c.vocab_size, c.dim)));
  }
  return spec;
}

}  // namespace coeus::models
