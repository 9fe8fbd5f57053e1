#pragma once
#include <string>
#include <vector>

#include "models/model_config.h"

namespace coeus::models {

// The half of a ModelConfig that follows from its struct of keys alone. C has vocab_size, describe,
// check, preset and preset_names; model.cpp is built from `config`.
template <class C>
class KindOf : public ModelConfig {
 public:
  C config;

  void describe(config::Fields& fields) override { config.describe(fields); }
  std::vector<std::string> presets() const override { return C::preset_names(); }
  bool apply_preset(const std::string& preset) override {
    const auto found = C::preset(preset);
    if (found) config = *found;
    return found.has_value();
  }
  std::int64_t vocab_size() const override { return config.vocab_size; }
  void set_vocab_size(std::int64_t size) override { config.vocab_size = size; }
  std::vector<std::string> check() const override { return config.check(); }
};

}  // namespace coeus::models
