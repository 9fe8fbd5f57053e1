#include "models/qwen3_moe/kind.h"

#include "models/qwen3_moe/hf.h"
#include "models/qwen3_moe/plan.h"
#include "models/qwen3_moe/spec.h"

namespace coeus::models {

std::unique_ptr<ModelConfig> Qwen3MoeModelConfig::clone() const {
  return std::make_unique<Qwen3MoeModelConfig>(*this);
}
ModelSpec Qwen3MoeModelConfig::spec() const {
  return qwen3_moe_spec(config);
}
ParallelPlan Qwen3MoeModelConfig::plan() const {
  return qwen3_moe_plan(config);
}
Json Qwen3MoeModelConfig::hf_config() const {
  return qwen3_moe_hf_config(config);
}
void Qwen3MoeModelConfig::read_hf_config(const Json& json, const std::string& where) {
  config = qwen3_moe_config_from_hf(json, where);
}
std::string Qwen3MoeModelConfig::hf_name(const std::string& fqn) const {
  return qwen3_moe_hf_name(fqn);
}

}  // namespace coeus::models
