#include "models/hf_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"

namespace coeus::models {

HfKeys::HfKeys(const Json& object, std::string where, std::string prefix)
    : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    throw CheckpointError(
        fmt::format("{}: {} is not an object", where_, prefix_.empty() ? "the document" : prefix_));
  }
}

void HfKeys::fail(std::string_view key, const std::string& why) const {
  const std::string path = prefix_.empty() ? std::string(key) : fmt::format("{}.{}", prefix_, key);
  throw CheckpointError(fmt::format("{}: {}: {}", where_, path, why));
}

const Json* HfKeys::find(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::int64_t> HfKeys::integer(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  // A float with an integral value is how some writers put it (factor 8.0 beside 8192.0).
  if (value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
      value->get<double>() == std::floor(value->get<double>())) {
    return static_cast<std::int64_t>(value->get<double>());
  }
  if (!value->is_number_integer()) fail(key, fmt::format("{} is not an integer", value->dump()));
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{1} << 62) {
    fail(key, fmt::format("{} is too large", value->dump()));
  }
  return value->get<std::int64_t>();
}

std::optional<double> HfKeys::number(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(key, fmt::format("{} is not a number", value->dump()));
  return value->get<double>();
}

std::optional<bool> HfKeys::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(key, fmt::format("{} is not true or false", value->dump()));
  return value->get<bool>();
}

std::optional<std::string> HfKeys::string(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(key, fmt::format("{} is not a string", value->dump()));
  return value->get<std::string>();
}

void HfKeys::only(std::string_view key, const Json& honoured) const {
  const Json* value = find(key);
  if (value && *value != honoured) {
    fail(key, fmt::format("{} is not supported, only {}", value->dump(), honoured.dump()));
  }
}

void HfKeys::refuse(const std::vector<std::string>& faults) const {
  if (faults.empty()) return;
  throw CheckpointError(fmt::format("{}: {}", where_, fmt::join(faults, "; ")));
}

HfKeys HfKeys::below(std::string_view key) const {
  const Json* value = find(key);
  if (!value) fail(key, "missing");
  return {*value, where_, prefix_.empty() ? std::string(key) : fmt::format("{}.{}", prefix_, key)};
}

void check_architecture(const HfKeys& keys, const std::string& model_type,
                        const std::string& architecture) {
  if (keys.string("model_type").value_or(model_type) != model_type) {
    keys.fail("model_type", "not " + model_type);
  }
  if (const Json* architectures = keys.find("architectures")) {
    if (*architectures != Json::array({architecture})) {
      keys.fail("architectures", fmt::format("{} is not {}", architectures->dump(), architecture));
    }
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (keys.boolean(key).value_or(false)) keys.fail(key, "biases are not supported");
  }
  const std::string activation = keys.string("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    keys.fail("hidden_act", fmt::format("{} is not supported, only silu", activation));
  }
  if (keys.number("attention_dropout").value_or(0.0) != 0.0) {
    keys.fail("attention_dropout", "dropout is not supported");
  }
  if (keys.find("quantization_config")) {
    keys.fail("quantization_config", "quantized weights are not supported");
  }
}

}  // namespace coeus::models
