#include "models/spec_parts.h"

#include <cmath>
#include <utility>

namespace coeus::models {

double residual_std(std::int64_t num_layers) {
  return kInitStd / std::sqrt(2.0 * static_cast<double>(num_layers));
}

Segment matrix(std::string fqn, std::int64_t rows, std::int64_t columns, double std,
               const Heads& heads) {
  return {std::move(fqn), {rows, columns}, {InitKind::normal, std}, heads};
}

ParameterSpec single(Segment segment) {
  std::string fqn = segment.fqn;
  return {std::move(fqn), {std::move(segment)}};
}

ParameterSpec gain(std::string fqn, std::int64_t dim) {
  return single({std::move(fqn), {dim}, {InitKind::ones, 0.0}, {}});
}

void add_attention(LayerSpec& layer, const std::string& name, const AttentionShape& s,
                   double o_proj_std) {
  const std::int64_t q_dim = s.num_heads * s.head_dim, kv_dim = s.num_kv_heads * s.head_dim;
  const Heads q_heads{.rows = s.num_heads}, kv_heads{.rows = s.num_kv_heads};
  layer.parameters.push_back(
      {name + ".qkv.weight",
       {matrix(name + ".q_proj.weight", q_dim, s.dim, kInitStd, q_heads),
        matrix(name + ".k_proj.weight", kv_dim, s.dim, kInitStd, kv_heads),
        matrix(name + ".v_proj.weight", kv_dim, s.dim, kInitStd, kv_heads)}});
  if (s.qk_norm) {
    layer.parameters.push_back(gain(name + ".q_norm.weight", s.head_dim));
    layer.parameters.push_back(gain(name + ".k_norm.weight", s.head_dim));
  }
  layer.parameters.push_back(
      single(matrix(name + ".o_proj.weight", s.dim, q_dim, o_proj_std, {.columns = s.num_heads})));
}

void add_swiglu(LayerSpec& layer, const std::string& name, std::int64_t dim, std::int64_t ffn_dim,
                double down_std) {
  layer.parameters.push_back({name + ".gate_up.weight",
                              {matrix(name + ".gate_proj.weight", ffn_dim, dim),
                               matrix(name + ".up_proj.weight", ffn_dim, dim)}});
  layer.parameters.push_back(single(matrix(name + ".down_proj.weight", dim, ffn_dim, down_std)));
}

void add_moe(LayerSpec& layer, const std::string& name, const MoeShape& s, double down_std) {
  ParameterSpec router = single(matrix(name + ".router.weight", s.num_experts, s.dim));
  router.compute = ComputeType::fp32;
  layer.parameters.push_back(std::move(router));
  ParameterSpec gate_up{name + ".experts.gate_up.weight", {}};
  ParameterSpec down{name + ".experts.down_proj.weight", {}};
  for (std::int64_t e = 0; e < s.num_experts; ++e) {
    const std::string expert = name + ".experts." + std::to_string(e);
    gate_up.segments.push_back(matrix(expert + ".gate_proj.weight", s.ffn_dim, s.dim));
    gate_up.segments.push_back(matrix(expert + ".up_proj.weight", s.ffn_dim, s.dim));
    down.segments.push_back(matrix(expert + ".down_proj.weight", s.dim, s.ffn_dim, down_std));
  }
  layer.parameters.push_back(std::move(gate_up));
  layer.parameters.push_back(std::move(down));
  if (s.shared_ffn_dim > 0) add_swiglu(layer, name + ".shared", s.dim, s.shared_ffn_dim, down_std);
  if (s.bias_balancing) {
    layer.buffers.push_back({name + ".router.bias", {s.num_experts}, {InitKind::zeros, 0.0}, {}});
  }
}

}  // namespace coeus::models
