#pragma once
#include <coeus/nn/model.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "models/model_config.h"

namespace coeus {

// What a run can be built from, filled by explicit calls. Formats, tokenizers and sinks are tables
// in their own modules.
class Registry {
 public:
  using BuildModel = std::function<std::unique_ptr<nn::Model>(const ModelConfig& config)>;

  void add_model(const std::string& name, BuildModel build);
  // Throws ConfigError for a name that was not added.
  std::unique_ptr<nn::Model> build_model(const ModelConfig& config) const;

 private:
  std::map<std::string, BuildModel> models_;
};

Registry builtin_registry();  // every kind of models/builtin.cpp

}  // namespace coeus
