#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace coeus::models {

struct MixtralConfig : DecoderConfig, GroupedQueryConfig, ExpertsConfig {
  std::int64_t head_dim() const { return dim / num_heads; }
  void describe(config::Fields& f);        // the keys of its parts
  std::vector<std::string> check() const;  // faults between the keys, "key: what is wrong"
  static std::optional<MixtralConfig> preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

}  // namespace coeus::models
