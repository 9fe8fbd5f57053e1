#include "train/registry.h"

#include "base/error.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"

namespace coeus {

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
  registry.add_model("llama", [](const ModelConfig& config) {
    return std::make_unique<models::Llama>(
        dynamic_cast<const models::LlamaModelConfig&>(config).config);
  });
  return registry;
}

}  // namespace coeus
