#pragma once
#include <coeus/nn.h>

#include "models/qwen3_moe/config.h"

namespace coeus::models {

// https://arxiv.org/abs/2505.09388
class Qwen3Moe : public nn::Model {
 public:
  using Config = Qwen3MoeConfig;
  explicit Qwen3Moe(const Qwen3MoeConfig& config);
};

}  // namespace coeus::models
