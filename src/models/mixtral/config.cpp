#include "models/mixtral/config.h"

#include <array>

namespace coeus::models {
namespace {

struct Preset {
  const char* name;
  std::int64_t dim, num_layers, num_heads, num_kv_heads, expert_ffn_dim, vocab_size;
  std::int64_t max_position_embeddings;
  double rope_theta;
};

constexpr std::array kPresets = {
    Preset{"debug", 256, 6, 8, 4, 256, 2048, 8192, 1e4},
    Preset{"8x7b", 4096, 32, 32, 8, 14336, 32000, 32768, 1e6},
    Preset{"8x22b", 6144, 56, 48, 8, 16384, 32768, 65536, 1e6},
};

}  // namespace

void MixtralConfig::describe(config::Fields& f) {
  DecoderConfig::describe(f);
  GroupedQueryConfig::describe(f);
  ExpertsConfig::describe(f);
}

std::optional<MixtralConfig> MixtralConfig::preset(const std::string& name) {
  for (const auto& p : kPresets) {
    if (name != p.name) continue;
    MixtralConfig c;
    c.dim = p.dim;
    c.num_layers = p.num_layers;
    c.num_heads = p.num_heads;
    c.num_kv_heads = p.num_kv_heads;
    c.expert_ffn_dim = p.expert_ffn_dim;
    c.vocab_size = p.vocab_size;
    c.max_position_embeddings = p.max_position_embeddings;
    c.rope_theta = p.rope_theta;
    c.norm_eps = 1e-5;
    c.num_experts = 8;
    c.top_k = 2;
    c.aux_loss_alpha = 0.02;
    return c;
  }
  return std::nullopt;
}

std::vector<std::string> MixtralConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& p : kPresets) names.emplace_back(p.name);
  return names;
}

std::vector<std::string> MixtralConfig::check() const {
  Faults faults;
  DecoderConfig::check(faults);
  if (dim > 0 && num_heads > 0) {
    if (dim % num_heads != 0) {
      faults.add("num_heads: {} does not divide dim {}", num_heads, dim);
    } else if (head_dim() % 2 != 0) {
      faults.add("num_heads: dim {} / {} heads = {} is odd; RoPE turns pairs", dim, num_heads,
                 head_dim());
    }
  }
  GroupedQueryConfig::check(faults, num_heads);
  ExpertsConfig::check(faults);
  return faults.take();
}

}  // namespace coeus::models
