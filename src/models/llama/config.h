#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coeus::config {
class Fields;
}

namespace coeus::models {

// RoPE frequencies as Llama 3.1 stretches them; factor 1 = off.
struct RopeScaling {
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
  void describe(config::Fields& f);
  std::vector<std::string> check() const;
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

struct LlamaConfig {
  std::int64_t dim = 256, num_layers = 6, num_heads = 16, num_kv_heads = 16, ffn_dim = 768;
  std::int64_t vocab_size = 0;  // 0: the tokenizer's
  std::int64_t max_position_embeddings = 8192;
  double rope_theta = 500000.0, norm_eps = 1e-5;
  RopeScaling rope_scaling;
  bool tie_embeddings = false;
  std::int64_t head_dim() const { return dim / num_heads; }
  void describe(config::Fields& f);        // the keys above
  std::vector<std::string> check() const;  // faults between the keys, "key: what is wrong"
  static std::optional<LlamaConfig> preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

}  // namespace coeus::models
