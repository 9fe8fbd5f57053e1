#pragma once
#include <coeus/nn.h>

#include "models/deepseek_v3/config.h"

namespace coeus::models {

// https://arxiv.org/abs/2412.19437
// Without the modules that predict further tokens (MTP).
class DeepseekV3 : public nn::Model {
 public:
  using Config = DeepseekV3Config;
  explicit DeepseekV3(const DeepseekV3Config& config);
};

}  // namespace coeus::models
