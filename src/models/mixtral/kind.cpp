#include "models/mixtral/kind.h"

#include "models/mixtral/hf.h"
#include "models/mixtral/plan.h"
#include "models/mixtral/spec.h"

namespace coeus::models {

std::unique_ptr<ModelConfig> MixtralModelConfig::clone() const {
  return std::make_unique<MixtralModelConfig>(*this);
}
ModelSpec MixtralModelConfig::spec() const {
  return mixtral_spec(config);
}
ParallelPlan MixtralModelConfig::plan() const {
  return mixtral_plan(config);
}
Json MixtralModelConfig::hf_config() const {
  return mixtral_hf_config(config);
}
void MixtralModelConfig::read_hf_config(const Json& json, const std::string& where) {
  config = mixtral_config_from_hf(json, where);
}
std::string MixtralModelConfig::hf_name(const std::string& fqn) const {
  return mixtral_hf_name(fqn);
}

}  // namespace coeus::models
