#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace coeus::models {

struct Qwen3MoeConfig : DecoderConfig, GroupedQueryConfig, ExpertsConfig {
  std::int64_t head_dim = 64;              // need not be dim / num_heads
  bool normalize_weights = true;           // the weights of a token's experts sum to 1
  void describe(config::Fields& f);        // the keys above and those of its parts
  std::vector<std::string> check() const;  // faults between the keys, "key: what is wrong"
  static std::optional<Qwen3MoeConfig> preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

}  // namespace coeus::models
