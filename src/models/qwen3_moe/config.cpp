#include "models/qwen3_moe/config.h"

#include <coeus/config/fields.h>
#include <array>

namespace coeus::models {
namespace {

struct Preset {
  const char* name;
  std::int64_t dim, num_layers, num_heads, num_kv_heads, head_dim;
  std::int64_t num_experts, top_k, expert_ffn_dim, vocab_size, max_position_embeddings;
  double rope_theta;
};

constexpr std::array kPresets = {
    Preset{"debug", 256, 6, 8, 4, 64, 16, 4, 128, 2048, 8192, 1e4},
    Preset{"30b-a3b", 2048, 48, 32, 4, 128, 128, 8, 768, 151936, 40960, 1e6},
    Preset{"235b-a22b", 4096, 94, 64, 4, 128, 128, 8, 1536, 151936, 40960, 1e6},
};

}  // namespace

void Qwen3MoeConfig::describe(config::Fields& f) {
  DecoderConfig::describe(f);
  GroupedQueryConfig::describe(f);
  f("head_dim", head_dim, "width of a head", config::between(1, kMaxSize));
  ExpertsConfig::describe(f);
  f("normalize_weights", normalize_weights, "the weights of a token's experts sum to 1");
}

std::optional<Qwen3MoeConfig> Qwen3MoeConfig::preset(const std::string& name) {
  for (const auto& p : kPresets) {
    if (name != p.name) continue;
    Qwen3MoeConfig c;
    c.dim = p.dim;
    c.num_layers = p.num_layers;
    c.num_heads = p.num_heads;
    c.num_kv_heads = p.num_kv_heads;
    c.head_dim = p.head_dim;
    c.num_experts = p.num_experts;
    c.top_k = p.top_k;
    c.expert_ffn_dim = p.expert_ffn_dim;
    c.vocab_size = p.vocab_size;
    c.max_position_embeddings = p.max_position_embeddings;
    c.rope_theta = p.rope_theta;
    c.aux_loss_alpha = 0.001;
    return c;
  }
  return std::nullopt;
}

std::vector<std::string> Qwen3MoeConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& p : kPresets) names.emplace_back(p.name);
  return names;
}

std::vector<std::string> Qwen3MoeConfig::check() const {
  Faults faults;
  DecoderConfig::check(faults);
  GroupedQueryConfig::check(faults, num_heads);
  if (faults.range("head_dim", head_dim, 1, kMaxSize) && head_dim % 2 != 0) {
    faults.add("head_dim: {} is odd; RoPE turns pairs", head_dim);
  }
  ExpertsConfig::check(faults);
  return faults.take();
}

}  // namespace coeus::models
