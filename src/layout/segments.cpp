#include "layout/segments.h"

namespace coeus {
namespace {

// Elements of the table that tokens are looked up in: rows of the first layer, one per token.
std::int64_t num_embedding_elements(const ModelSpec& spec) {
  std::int64_t n = 0;
  if (spec.layers.empty()) return 0;
  for (const auto& parameter : spec.layers.front().parameters) {
    for (const auto& segment : parameter.segments) {
      if (segment.shape.size() == 2 && segment.shape[0] == spec.vocab_size) {
        n += segment.num_elements();
      }
    }
  }
  return n;
}

double flops(const ModelSpec& spec, std::int64_t sequence_length, double attention_share) {
  std::int64_t in_matmuls = spec.num_active_parameters();
  if (spec.ties.empty()) in_matmuls -= num_embedding_elements(spec);
  const double attention = 12.0 * static_cast<double>(spec.num_layers * spec.num_heads) *
                           static_cast<double>(spec.head_dim * sequence_length);
  return 6.0 * static_cast<double>(in_matmuls) + attention_share * attention;
}

}  // namespace

std::vector<std::int64_t> ParameterSpec::local_shape() const {
  std::vector<std::int64_t> shape = segments.at(0).shape;
  if (!shape.empty()) shape[0] = 0;
  for (std::size_t i = 0; i < segments.size() && !shape.empty(); ++i) {
    const Part p = part(i);
    shape[0] += p.dim == 0 ? p.end - p.begin : segments[i].shape[0];
    if (p.dim > 0) shape[static_cast<std::size_t>(p.dim)] = p.end - p.begin;
  }
  return shape;
}

std::int64_t ModelSpec::num_parameters() const {
  std::int64_t n = 0;
  for (const auto& layer : layers) {
    for (const auto& parameter : layer.parameters) n += parameter.num_elements();
  }
  return n;
}

bool ModelSpec::is_routed(const std::string& fqn) const {
  return num_experts > 0 && fqn.find(".experts.") != std::string::npos;
}

std::int64_t ModelSpec::num_active_parameters() const {
  std::int64_t n = 0;
  for (const auto& layer : layers) {
    for (const auto& parameter : layer.parameters) {
      n += is_routed(parameter.fqn) ? parameter.num_elements() / num_experts * top_k
                                    : parameter.num_elements();
    }
  }
  return n;
}

double ModelSpec::flops_per_token(std::int64_t sequence_length) const {
  return flops(*this, sequence_length, 1.0);
}

double ModelSpec::flops_per_token_causal(std::int64_t sequence_length) const {
  return flops(*this, sequence_length, 0.5);
}

}  // namespace coeus
