#include "models/llama/hf.h"

#include <fmt/format.h>

#include "models/hf_keys.h"
#include "models/hf_names.h"
#include "models/hf_rope.h"

namespace coeus::models {
namespace {

RopeScaling read_scaling(const HfKeys& keys, const std::string& type) {
  if (type != "llama3") {
    keys.fail("rope_type", fmt::format("{} is not supported, only default and llama3", type));
  }
  return {.factor = keys.required("factor", keys.number("factor")),
          .low_freq_factor = keys.required("low_freq_factor", keys.number("low_freq_factor")),
          .high_freq_factor = keys.required("high_freq_factor", keys.number("high_freq_factor")),
          .original_max_position_embeddings = keys.size("original_max_position_embeddings")};
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
                 {"use_cache", true}};
  Json scaling = nullptr;
  if (c.rope_scaling.factor != 1.0) {
    scaling = {
        {"rope_type", "llama3"},
        {"factor", c.rope_scaling.factor},
        {"low_freq_factor", c.rope_scaling.low_freq_factor},
        {"high_freq_factor", c.rope_scaling.high_freq_factor},
        {"original_max_position_embeddings", c.rope_scaling.original_max_position_embeddings}};
  }
  write_hf_rope(config, c.rope_theta, std::move(scaling));
  return config;
}

LlamaConfig llama_config_from_hf(const Json& config, const std::string& where) {
  const HfKeys keys(config, where);
  check_architecture(keys, "llama", "LlamaForCausalLM");
  LlamaConfig c;
  c.dim = keys.size("hidden_size");
  c.ffn_dim = keys.size("intermediate_size");
  c.num_layers = keys.size("num_hidden_layers");
  c.num_heads = keys.size("num_attention_heads");
  c.vocab_size = keys.size("vocab_size");
  // What transformers assumes where a key is absent.
  c.num_kv_heads = keys.integer("num_key_value_heads").value_or(c.num_heads);
  c.max_position_embeddings = keys.integer("max_position_embeddings").value_or(2048);
  c.norm_eps = keys.number("rms_norm_eps").value_or(1e-6);
  c.tie_embeddings = keys.boolean("tie_word_embeddings").value_or(false);
  const auto rope = read_hf_rope<RopeScaling>(keys, 10000.0, read_scaling);
  c.rope_theta = rope.theta;
  c.rope_scaling = rope.scaling;
  keys.refuse(c.check());
  if (c.vocab_size == 0) keys.fail("vocab_size", "0");
  if (const auto head_dim = keys.integer("head_dim"); head_dim && *head_dim != c.head_dim()) {
    keys.fail("head_dim", fmt::format("{} is not hidden_size / num_attention_heads = {}", *head_dim,
                                      c.head_dim()));
  }
  return c;
}

std::string llama_hf_name(const std::string& fqn) {
  return find_hf_name(fqn, {kHfDecoderNames, kHfQkvNames, kHfMlpNames}, "Llama");
}

}  // namespace coeus::models
