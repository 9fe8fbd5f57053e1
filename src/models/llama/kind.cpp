#include "models/llama/kind.h"

#include "models/llama/hf.h"
#include "models/llama/plan.h"
#include "models/llama/spec.h"

namespace coeus::models {

std::unique_ptr<ModelConfig> LlamaModelConfig::clone() const {
  return std::make_unique<LlamaModelConfig>(*this);
}

ModelSpec LlamaModelConfig::spec() const {
  return llama_spec(config);
}
ParallelPlan LlamaModelConfig::plan() const {
  return llama_plan(config);
}
Json LlamaModelConfig::hf_config() const {
  return llama_hf_config(config);
}
std::string LlamaModelConfig::hf_name(const std::string& fqn) const {
  return llama_hf_name(fqn);
}

void LlamaModelConfig::read_hf_config(const Json& json, const std::string& where) {
  config = llama_config_from_hf(json, where);
}

}  // namespace coeus::models
