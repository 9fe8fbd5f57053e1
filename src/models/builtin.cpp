#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "models/deepseek_v3/kind.h"
#include "models/llama/kind.h"
#include "models/mixtral/kind.h"
#include "models/model_config.h"
#include "models/qwen3_moe/kind.h"

namespace coeus {
namespace {

struct Kind {
  const char* name;
  const char* hf_model_type;
  std::unique_ptr<ModelConfig> (*make)();
};

template <class T>
std::unique_ptr<ModelConfig> make() {
  return std::make_unique<T>();
}

constexpr std::array kKinds = {
    Kind{"llama", "llama", make<models::LlamaModelConfig>},
    Kind{"mixtral", "mixtral", make<models::MixtralModelConfig>},
    Kind{"qwen3_moe", "qwen3_moe", make<models::Qwen3MoeModelConfig>},
    Kind{"deepseek_v3", "deepseek_v3", make<models::DeepseekV3ModelConfig>},
};

}  // namespace

std::unique_ptr<ModelConfig> make_model_config(const std::string& name) {
  for (const auto& kind : kKinds) {
    if (name == kind.name) return kind.make();
  }
  return nullptr;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::unique_ptr<ModelConfig> model_config_from_hf(const Json& config, const std::string& where) {
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  if (type == config.end() || !type->is_string()) {
    throw CheckpointError(fmt::format("{}: model_type: missing", where));
  }
  for (const auto& kind : kKinds) {
    if (type->get<std::string>() == kind.hf_model_type) {
      auto model = kind.make();
      model->read_hf_config(config, where);
      return model;
    }
  }
  throw CheckpointError(fmt::format("{}: model_type: {} is not a model built in here (there is {})",
                                    where, type->dump(), fmt::join(model_names(), ", ")));
}

}  // namespace coeus
