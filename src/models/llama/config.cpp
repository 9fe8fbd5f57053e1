#include "models/llama/config.h"

#include <fmt/format.h>

#include <coeus/config/fields.h>
#include <array>

#include "models/faults.h"

namespace coeus::models {
namespace {

enum class Scaling { none, llama_3_1, llama_3_2 };
struct Preset {
  const char* name;
  std::int64_t dim, num_layers, num_heads, num_kv_heads, ffn_dim, vocab_size;
  bool tied;
  double rope_theta;
  Scaling scaling;
};

constexpr auto kNone = Scaling::none;
constexpr std::array kPresets = {
    Preset{"debug", 256, 6, 16, 16, 768, 2048, false, 1e4, kNone},
    Preset{"15m", 288, 6, 6, 6, 768, 32000, true, 1e4, kNone},
    Preset{"124m", 768, 12, 12, 12, 2048, 50304, false, 1e4, kNone},
    Preset{"3.2-1b", 2048, 16, 32, 8, 8192, 128256, true, 5e5, Scaling::llama_3_2},
    Preset{"3.2-3b", 3072, 28, 24, 8, 8192, 128256, true, 5e5, Scaling::llama_3_2},
    Preset{"3-8b", 4096, 32, 32, 8, 14336, 128256, false, 5e5, kNone},
    Preset{"3.1-8b", 4096, 32, 32, 8, 14336, 128256, false, 5e5, Scaling::llama_3_1},
    Preset{"3-70b", 8192, 80, 64, 8, 28672, 128256, false, 5e5, kNone},
    Preset{"3.1-70b", 8192, 80, 64, 8, 28672, 128256, false, 5e5, Scaling::llama_3_1},
    Preset{"3.1-405b", 16384, 126, 128, 8, 53248, 128256, false, 5e5, Scaling::llama_3_1},
};

}  // namespace

void RopeScaling::describe(config::Fields& f) {
  f("factor", factor, "how much longer the context gets; 1 is off", config::at_least(1));
  f("low_freq_factor", low_freq_factor,
    "wavelengths above original_max_position_embeddings / this are stretched", config::above(0));
  f("high_freq_factor", high_freq_factor,
    "wavelengths below original_max_position_embeddings / this stay", config::above(0));
  f("original_max_position_embeddings", original_max_position_embeddings,
    "context length before stretching", config::at_least(1));
}

void LlamaConfig::describe(config::Fields& f) {
  f("dim", dim, "residual width", config::between(1, kMaxSize));
  f("num_layers", num_layers, "blocks", config::between(1, kMaxLayers));
  f("num_heads", num_heads, "attention heads, of dim / num_heads each",
    config::between(1, kMaxSize));
  f("num_kv_heads", num_kv_heads, "key and value heads, shared by groups of attention heads",
    config::between(1, kMaxSize));
  f("ffn_dim", ffn_dim, "MLP width", config::between(1, kMaxSize));
  f("vocab_size", vocab_size, "token ids; 0 takes the tokenizer's", config::between(0, kMaxSize));
  f("max_position_embeddings", max_position_embeddings,
    "longest context, as told to readers of the checkpoint", config::at_least(1));
  f("rope_theta", rope_theta, "base of the RoPE frequencies", config::above(1));
  f("norm_eps", norm_eps, "added to the mean square in RMSNorm", config::above(0));
  f("rope_scaling", rope_scaling, "RoPE frequencies stretched as in Llama 3.1");
  f("tie_embeddings", tie_embeddings, "the head uses the embedding's weight");
}

std::optional<LlamaConfig> LlamaConfig::preset(const std::string& name) {
  for (const auto& p : kPresets) {
    if (name != p.name) continue;
    LlamaConfig c;
    c.dim = p.dim;
    c.num_layers = p.num_layers;
    c.num_heads = p.num_heads;
    c.num_kv_heads = p.num_kv_heads;
    c.ffn_dim = p.ffn_dim;
    c.vocab_size = p.vocab_size;
    c.tie_embeddings = p.tied;
    c.rope_theta = p.rope_theta;
    if (p.scaling != Scaling::none) {
      c.max_position_embeddings = 131072;
      c.rope_scaling.factor = p.scaling == Scaling::llama_3_1 ? 8.0 : 32.0;
    }
    return c;
  }
  return std::nullopt;
}

std::vector<std::string> LlamaConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& p : kPresets) names.emplace_back(p.name);
  return names;
}

std::vector<std::string> LlamaConfig::check() const {
  Faults faults;
  const bool dim_ok = faults.range("dim", dim, 1, kMaxSize);
  const bool heads_ok = faults.range("num_heads", num_heads, 1, kMaxSize);
  const bool kv_heads_ok = faults.range("num_kv_heads", num_kv_heads, 1, kMaxSize);
  faults.range("num_layers", num_layers, 1, kMaxLayers);
  faults.range("ffn_dim", ffn_dim, 1, kMaxSize);
  faults.range("vocab_size", vocab_size, 0, kMaxSize);
  faults.range("max_position_embeddings", max_position_embeddings, 1, std::int64_t{1} << 31);
  if (dim_ok && heads_ok) {
    if (dim % num_heads != 0) {
      faults.add("num_heads: {} does not divide dim {}", num_heads, dim);
    } else if (head_dim() % 2 != 0) {
      faults.add("num_heads: dim {} / {} heads = {} is odd; RoPE turns pairs", dim, num_heads,
                 head_dim());
    }
  }
  if (heads_ok && kv_heads_ok && num_heads % num_kv_heads != 0) {
    faults.add("num_kv_heads: {} does not divide num_heads {}", num_kv_heads, num_heads);
  }
  if (!(rope_theta > 1.0)) faults.add("rope_theta: {} is not above 1", rope_theta);
  if (!(norm_eps > 0.0 && norm_eps < 1.0)) {
    faults.add("norm_eps: {} is not between 0 and 1", norm_eps);
  }
  faults.add_below("rope_scaling", rope_scaling.check());
  return faults.take();
}

std::vector<std::string> RopeScaling::check() const {
  std::vector<std::string> faults;
  if (!(factor >= 1.0)) faults.push_back(fmt::format("factor: {} is less than 1", factor));
  if (!(low_freq_factor > 0.0 && low_freq_factor < high_freq_factor)) {
    faults.push_back(fmt::format("low_freq_factor: {} is not between 0 and high_freq_factor {}",
                                 low_freq_factor, high_freq_factor));
  }
  if (original_max_position_embeddings < 1) {
    faults.push_back(fmt::format("original_max_position_embeddings: {} is less than 1",
                                 original_max_position_embeddings));
  }
  return faults;
}

}  // namespace coeus::models
