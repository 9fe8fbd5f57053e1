#pragma once
#include <coeus/nn.h>

#include "models/llama/config.h"

namespace coeus::models {

// https://arxiv.org/abs/2407.21783
class Llama : public nn::Model {
 public:
  using Config = LlamaConfig;
  explicit Llama(const LlamaConfig& config);
};

}  // namespace coeus::models
