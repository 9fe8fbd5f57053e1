#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace coeus::models {

// RoPE frequencies as YaRN stretches them, with DeepSeek's mscale (include/coeus/nn/mla.h); factor
// 1 = off.
struct YarnScaling {
  double factor = 1.0, beta_fast = 32.0, beta_slow = 1.0, mscale = 1.0, mscale_all_dim = 1.0;
  std::int64_t original_max_position_embeddings = 4096;
  void describe(config::Fields& f);
  std::vector<std::string> check() const;
  friend bool operator==(const YarnScaling&, const YarnScaling&) = default;
};

struct DeepseekV3Config : DecoderConfig, ExpertsConfig {
  std::int64_t q_lora_rank = 96;  // 0: queries are projected at once
  std::int64_t kv_lora_rank = 64;
  std::int64_t qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32;
  YarnScaling rope_scaling;
  std::int64_t num_dense_layers = 1, ffn_dim = 768;  // the first blocks have an MLP of this width
  std::int64_t num_shared_experts = 1;
  std::int64_t num_groups = 1, num_limited_groups = 1;
  bool normalize_weights = true;
  double route_scale = 1.0, bias_update_speed = 1e-3;

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  bool has_experts(std::int64_t layer) const { return layer >= num_dense_layers; }
  void describe(config::Fields& f);        // the keys above and those of its parts
  std::vector<std::string> check() const;  // faults between the keys, "key: what is wrong"
  static std::optional<DeepseekV3Config> preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

}  // namespace coeus::models
