#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace coeus::models {

// One object of a config.json, whose keys are read with faults (CheckpointError) that name them;
// null counts as absent.
class HfKeys {
 public:
  HfKeys(const Json& object, std::string where, std::string prefix = {});

  [[noreturn]] void fail(std::string_view key, const std::string& why) const;
  const Json* find(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  template <class T>
  T required(std::string_view key, const std::optional<T>& value) const {
    if (!value) fail(key, "missing");
    return *value;
  }
  std::int64_t size(std::string_view key) const { return required(key, integer(key)); }
  // Refuses a value that the model built here cannot have: every one but `honoured`.
  void only(std::string_view key, const Json& honoured) const;
  // Throws all faults of the model's own check, if there are any.
  void refuse(const std::vector<std::string>& faults) const;
  // The object below `key`, which must be there.
  HfKeys below(std::string_view key) const;

 private:
  const Json& object_;
  std::string where_, prefix_;
};

// What no model here honours, whatever its kind: another architecture than this one, biases,
// activations but SiLU, dropout, quantized weights.
void check_architecture(const HfKeys& keys, const std::string& model_type,
                        const std::string& architecture);

}  // namespace coeus::models
