#pragma once
#include <memory>
#include <string>

#include "models/kind_of.h"
#include "models/mixtral/config.h"

namespace coeus::models {

// Mixtral as the light half sees it.
class MixtralModelConfig final : public KindOf<MixtralConfig> {
 public:
  std::unique_ptr<ModelConfig> clone() const override;
  std::string name() const override { return "mixtral"; }
  ModelSpec spec() const override;
  ParallelPlan plan() const override;
  Json hf_config() const override;
  void read_hf_config(const Json& config, const std::string& where) override;
  std::string hf_name(const std::string& fqn) const override;
};

}  // namespace coeus::models
