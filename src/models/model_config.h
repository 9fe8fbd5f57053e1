#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "layout/plan.h"
#include "layout/segments.h"

namespace coeus::config {
class Fields;
}

namespace coeus {

// What the light half knows of a model kind: its `model:` section of the YAML file and all that
// follows from it. No libtorch.
class ModelConfig {
 public:
  virtual ~ModelConfig() = default;
  virtual std::unique_ptr<ModelConfig> clone() const = 0;
  virtual std::string name() const = 0;
  virtual void describe(config::Fields& fields) = 0;
  virtual std::vector<std::string> presets() const = 0;
  virtual bool apply_preset(const std::string& preset) = 0;  // false: no such preset
  virtual std::int64_t vocab_size() const = 0;               // 0: not given, the tokenizer decides
  virtual void set_vocab_size(std::int64_t size) = 0;
  virtual std::vector<std::string> check()
      const = 0;  // faults between its own keys, "key: what is wrong"
  virtual ModelSpec spec() const = 0;
  virtual ParallelPlan plan() const = 0;

  // Hugging Face's view. hf_config throws nothing; read_hf_config throws CheckpointError naming the
  // key that this model cannot honour.
  virtual Json hf_config() const = 0;  // config.json without dtype and token ids
  virtual void read_hf_config(const Json& config, const std::string& where) = 0;
  virtual std::string hf_name(const std::string& fqn) const = 0;  // segment fqn -> tensor name
};

// The built-in kinds: "llama", "mixtral", … nullptr for an unknown name.
std::unique_ptr<ModelConfig> make_model_config(const std::string& name);
std::vector<std::string> model_names();
// The kind whose model_type config.json names.
std::unique_ptr<ModelConfig> model_config_from_hf(const Json& config, const std::string& where);

}  // namespace coeus
