#pragma once
#include <coeus/nn.h>

#include "models/mixtral/config.h"

namespace coeus::models {

// https://arxiv.org/abs/2401.04088
class Mixtral : public nn::Model {
 public:
  using Config = MixtralConfig;
  explicit Mixtral(const MixtralConfig& config);
};

}  // namespace coeus::models
