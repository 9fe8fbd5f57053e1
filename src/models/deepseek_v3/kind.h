#pragma once
#include <memory>
#include <string>

#include "models/deepseek_v3/config.h"
#include "models/kind_of.h"

namespace coeus::models {

// DeepSeek-V3 as the light half sees it.
class DeepseekV3ModelConfig final : public KindOf<DeepseekV3Config> {
 public:
  std::unique_ptr<ModelConfig> clone() const override;
  std::string name() const override { return "deepseek_v3"; }
  ModelSpec spec() const override;
  ParallelPlan plan() const override;
  Json hf_config() const override;
  void read_hf_config(const Json& config, const std::string& where) override;
  std::string hf_name(const std::string& fqn) const override;
};

}  // namespace coeus::models
