#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/llama/config.h"
#include "models/model_config.h"

namespace coeus::models {

// Llama as the light half sees it; `config` is what model.cpp is built from.
class LlamaModelConfig final : public ModelConfig {
 public:
  LlamaConfig config;

  std::unique_ptr<ModelConfig> clone() const override;
  std::string name() const override { return "llama"; }
  void describe(config::Fields& fields) override { config.describe(fields); }
  std::vector<std::string> presets() const override { return LlamaConfig::preset_names(); }
  bool apply_preset(const std::string& preset) override;
  std::int64_t vocab_size() const override { return config.vocab_size; }
  void set_vocab_size(std::int64_t size) override { config.vocab_size = size; }
  std::vector<std::string> check() const override { return config.check(); }
  ModelSpec spec() const override;
  ParallelPlan plan() const override;
  Json hf_config() const override;
  void read_hf_config(const Json& json, const std::string& where) override;
  std::string hf_name(const std::string& fqn) const override;
};

}  // namespace coeus::models
