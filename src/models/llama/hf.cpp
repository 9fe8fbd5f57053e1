#include "models/llama/hf.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace coeus::models {
namespace {

// One JSON object whose keys are read with faults that name them; null counts as absent.
class Keys {
 public:
  Keys(const Json& object, std::string where, std::string prefix = {})
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {
    if (!object.is_object()) {
      throw CheckpointError(fmt::format("{}: {} is not an object", where_,
                                        prefix_.empty() ? "the document" : prefix_));
    }
  }

  [[noreturn]] void fail(std::string_view key, const std::string& why) const {
    const std::string path =
        prefix_.empty() ? std::string(key) : fmt::format("{}.{}", prefix_, key);
    throw CheckpointError(fmt::format("{}: {}: {}", where_, path, why));
  }
  const Json* find(std::string_view key) const {
    const auto it = object_.find(std::string(key));
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::optional<std::int64_t> integer(std::string_view key) const {
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
  std::optional<double> number(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number()) fail(key, fmt::format("{} is not a number", value->dump()));
    return value->get<double>();
  }
  std::optional<bool> boolean(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) fail(key, fmt::format("{} is not true or false", value->dump()));
    return value->get<bool>();
  }
  std::optional<std::string> string(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_string()) fail(key, fmt::format("{} is not a string", value->dump()));
    return value->get<std::string>();
  }
  template <class T>
  T required(std::string_view key, const std::optional<T>& value) const {
    if (!value) fail(key, "missing");
    return *value;
  }

 private:
  const Json& object_;
  std::string where_, prefix_;
};

void check_honoured(const Keys& keys) {
  if (keys.string("model_type").value_or("llama") != "llama") {
    keys.fail("model_type", "not llama");
  }
  if (const Json* architectures = keys.find("architectures")) {
    if (*architectures != Json::array({"LlamaForCausalLM"})) {
      keys.fail("architectures", fmt::format("{} is not LlamaForCausalLM", architectures->dump()));
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

struct Rope {
  std::optional<double> theta;
  RopeScaling scaling;
};

bool same_scaling(const RopeScaling& a, const RopeScaling& b) {
  if (a.factor == 1.0 && b.factor == 1.0) return true;
  return a.factor == b.factor && a.low_freq_factor == b.low_freq_factor &&
         a.high_freq_factor == b.high_freq_factor &&
         a.original_max_position_embeddings == b.original_max_position_embeddings;
}

// rope_scaling (transformers 4) and rope_parameters (5) have the same keys, but for rope_theta in
// the latter.
Rope read_rope(const Json& object, const std::string& where, const std::string& key) {
  const Keys keys(object, where, key);
  Rope rope{keys.number("rope_theta"), {}};
  const std::string type =
      keys.string("rope_type").value_or(keys.string("type").value_or("default"));
  if (keys.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    keys.fail("partial_rotary_factor", "rotating part of a head is not supported");
  }
  if (type == "llama3") {
    rope.scaling.factor = keys.required("factor", keys.number("factor"));
    rope.scaling.low_freq_factor = keys.required("low_freq_factor", keys.number("low_freq_factor"));
    rope.scaling.high_freq_factor =
        keys.required("high_freq_factor", keys.number("high_freq_factor"));
    rope.scaling.original_max_position_embeddings = keys.required(
        "original_max_position_embeddings", keys.integer("original_max_position_embeddings"));
  } else if (type != "default") {
    keys.fail("rope_type", fmt::format("{} is not supported, only default and llama3", type));
  }
  return rope;
}

void read_ropes(const Json& config, const Keys& keys, const std::string& where, LlamaConfig& c) {
  std::optional<Rope> old_spelling, new_spelling;
  if (keys.find("rope_scaling"))
    old_spelling = read_rope(config["rope_scaling"], where, "rope_scaling");
  if (keys.find("rope_parameters")) {
    new_spelling = read_rope(config["rope_parameters"], where, "rope_parameters");
  }
  if (old_spelling && new_spelling && !same_scaling(old_spelling->scaling, new_spelling->scaling)) {
    keys.fail("rope_scaling", "differs from rope_parameters");
  }
  const auto outer_theta = keys.number("rope_theta");
  c.rope_theta = outer_theta.value_or(10000.0);
  if (new_spelling && new_spelling->theta) {
    if (outer_theta && *outer_theta != *new_spelling->theta) {
      keys.fail("rope_theta", "differs from rope_parameters.rope_theta");
    }
    c.rope_theta = *new_spelling->theta;
  }
  if (new_spelling) {
    c.rope_scaling = new_spelling->scaling;
  } else if (old_spelling) {
    c.rope_scaling = old_spelling->scaling;
  }
}

}  // namespace

Json llama_hf_config(const LlamaConfig& c) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", c.dim},
                 {"intermediate_size", c.ffn_dim},
                 {"num_hidden_layers", c.num_layers},
                 {"num_attention_heads", c.num_heads},
                 {"num_key_value_heads", c.num_kv_heads},
                 {"head_dim", c.head_dim()},
                 {"vocab_size", c.vocab_size},
                 {"max_position_embeddings", c.max_position_embeddings},
                 {"rms_norm_eps", c.norm_eps},
                 {"hidden_act", "silu"},
                 {"initializer_range", 0.02},
                 {"tie_word_embeddings", c.tie_embeddings},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0},
                 {"mlp_bias", false},
                 {"use_cache", true},
                 {"rope_theta", c.rope_theta}};
  Json scaling = nullptr;
  if (c.rope_scaling.factor != 1.0) {
    scaling = {
        {"rope_type", "llama3"},
        {"factor", c.rope_scaling.factor},
        {"low_freq_factor", c.rope_scaling.low_freq_factor},
        {"high_freq_factor", c.rope_scaling.high_freq_factor},
        {"original_max_position_embeddings", c.rope_scaling.original_max_position_embeddings}};
  }
  Json parameters = scaling.is_null() ? Json{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = c.rope_theta;
  config["rope_scaling"] = std::move(scaling);
  config["rope_parameters"] = std::move(parameters);
  return config;
}

LlamaConfig llama_config_from_hf(const Json& config, const std::string& where) {
  const Keys keys(config, where);
  check_honoured(keys);
  LlamaConfig c;
  const auto size = [&](const char* key) { return keys.required(key, keys.integer(key)); };
  c.dim = size("hidden_size");
  c.ffn_dim = size("intermediate_size");
  c.num_layers = size("num_hidden_layers");
  c.num_heads = size("num_attention_heads");
  c.vocab_size = size("vocab_size");
  // What transformers assumes where a key is absent.
  c.num_kv_heads = keys.integer("num_key_value_heads").value_or(c.num_heads);
  c.max_position_embeddings = keys.integer("max_position_embeddings").value_or(2048);
  c.norm_eps = keys.number("rms_norm_eps").value_or(1e-6);
  c.tie_embeddings = keys.boolean("tie_word_embeddings").value_or(false);
  read_ropes(config, keys, where, c);
  const auto faults = c.check();
  if (!faults.empty()) throw CheckpointError(fmt::format("{}: {}", where, fmt::join(faults, "; ")));
  if (c.vocab_size == 0) keys.fail("vocab_size", "0");
  if (const auto head_dim = keys.integer("head_dim"); head_dim && *head_dim != c.head_dim()) {
    keys.fail("head_dim", fmt::format("{} is not hidden_size / num_attention_heads = {}", *head_dim,
                                      c.head_dim()));
  }
  return c;
}

std::string llama_hf_name(const std::string& fqn) {
  static const std::map<std::string_view, std::string> outside = {
      {"embed.weight", "model.embed_tokens.weight"},
      {"norm.weight", "model.norm.weight"},
      {"head.weight", "lm_head.weight"}};
  static const std::map<std::string_view, std::string> in_block = {
      {"norm1.weight", "input_layernorm.weight"},
      {"norm2.weight", "post_attention_layernorm.weight"},
      {"attention.q_proj.weight", "self_attn.q_proj.weight"},
      {"attention.k_proj.weight", "self_attn.k_proj.weight"},
      {"attention.v_proj.weight", "self_attn.v_proj.weight"},
      {"attention.o_proj.weight", "self_attn.o_proj.weight"},
      {"mlp.gate_proj.weight", "mlp.gate_proj.weight"},
      {"mlp.up_proj.weight", "mlp.up_proj.weight"},
      {"mlp.down_proj.weight", "mlp.down_proj.weight"}};
  if (const auto found = outside.find(fqn); found != outside.end()) return found->second;
  constexpr std::string_view kBlocks = "blocks.";
  COEUS_ASSERT(fqn.starts_with(kBlocks), "{} is no segment of a Llama", fqn);
  const std::size_t dot = fqn.find('.', kBlocks.size());
  COEUS_ASSERT(dot != std::string::npos, "{} is no segment of a Llama", fqn);
  const auto found = in_block.find(std::string_view(fqn).substr(dot + 1));
  COEUS_ASSERT(found != in_block.end(), "{} is no segment of a Llama", fqn);
  return fmt::format("model.layers.{}.{}", fqn.substr(kBlocks.size(), dot - kBlocks.size()),
                     found->second);
}

}  // namespace coeus::models
