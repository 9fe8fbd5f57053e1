#include "train/registry.h"

#include "base/error.h"
#include "models/deepseek_v3/kind.h"
#include "models/deepseek_v3/model.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"
#include "models/mixtral/kind.h"
#include "models/mixtral/model.h"
#include "models/qwen3_moe/kind.h"
#include "models/qwen3_moe/model.h"

namespace coeus {
namespace {

template <class Model, class Kind>
std::unique_ptr<nn::Model> build(const ModelConfig& config) {
  return std::make_unique<Model>(dynamic_cast<const Kind&>(config).config);
}

}  // namespace

void Registry::add_model(const std::string& name, BuildModel build) {
  models_[name] = std::move(build);
}

std::unique_ptr<nn::Model> Registry::build_model(const ModelConfig& config) const {
  const auto found = models_.find(config.name());
  if (found == models_.end())
    throw ConfigError(fmt::format("model.name: no model named {} is registered", config.name()));
  return found->second(config);
}

Registry builtin_registry() {
  Registry registry;
  registry.add_model("llama", build<models::Llama, models::LlamaModelConfig>);
  registry.add_model("mixtral", build<models::Mixtral, models::MixtralModelConfig>);
  registry.add_model("qwen3_moe", build<models::Qwen3Moe, models::Qwen3MoeModelConfig>);
  registry.add_model("deepseek_v3", build<models::DeepseekV3, models::DeepseekV3ModelConfig>);
  return registry;
}

}  // namespace coeus
