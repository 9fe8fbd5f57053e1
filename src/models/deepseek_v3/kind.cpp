#include "models/deepseek_v3/kind.h"

#include "models/deepseek_v3/hf.h"
#include "models/deepseek_v3/plan.h"
#include "models/deepseek_v3/spec.h"

namespace coeus::models {

std::unique_ptr<ModelConfig> DeepseekV3ModelConfig::clone() const {
  return std::make_unique<DeepseekV3ModelConfig>(*this);
}
ModelSpec DeepseekV3ModelConfig::spec() const {
  return deepseek_v3_spec(config);
}
ParallelPlan DeepseekV3ModelConfig::plan() const {
  return deepseek_v3_plan(config);
}
Json DeepseekV3ModelConfig::hf_config() const {
  return deepseek_v3_hf_config(config);
}
void DeepseekV3ModelConfig::read_hf_config(const Json& json, const std::string& where) {
  config = deepseek_v3_config_from_hf(json, where);
}
std::string DeepseekV3ModelConfig::hf_name(const std::string& fqn) const {
  return deepseek_v3_hf_name(fqn);
}

}  // namespace coeus::models
