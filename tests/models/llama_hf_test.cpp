#include "models/llama/hf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/llama/spec.h"

namespace coeus::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// As transformers 4 wrote it for Llama 3.1 8B (shortened to what matters).
Json llama_3_1_8b_of_transformers_4() {
  return parse_json(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128009],
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0", "use_cache": true, "vocab_size": 128256})",
                    "test");
}

Json as_transformers_5_writes_it(Json config) {
  Json rope = config["rope_scaling"];
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = rope;
  config["head_dim"] = 128;
  config["dtype"] = "bfloat16";
  return config;
}

void expect_equal(const LlamaConfig& a, const LlamaConfig& b) {
  EXPECT_EQ(llama_hf_config(a), llama_hf_config(b));
}

TEST(LlamaHf, BothSpellingsOfLlama31AreThePreset) {
  const auto preset = *LlamaConfig::preset("3.1-8b");
  const auto old_spelling = llama_3_1_8b_of_transformers_4();
  expect_equal(llama_config_from_hf(old_spelling, "f"), preset);
  expect_equal(llama_config_from_hf(as_transformers_5_writes_it(old_spelling), "f"), preset);
}

TEST(LlamaHf, WhatIsWrittenIsReadBackForEveryPreset) {
  for (const auto& name : LlamaConfig::preset_names()) {
    const auto config = *LlamaConfig::preset(name);
    expect_equal(llama_config_from_hf(llama_hf_config(config), name), config);
  }
}

TEST(LlamaHf, WritesBothSpellings) {
  const auto scaled = llama_hf_config(*LlamaConfig::preset("3.2-1b"));
  EXPECT_EQ(scaled["rope_theta"], 500000.0);
  EXPECT_EQ(scaled["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(scaled["rope_scaling"]["factor"], 32.0);
  EXPECT_FALSE(scaled["rope_scaling"].contains("rope_theta"));
  EXPECT_EQ(scaled["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(scaled["rope_parameters"]["original_max_position_embeddings"], 8192);
  EXPECT_EQ(scaled["tie_word_embeddings"], true);
  const auto plain = llama_hf_config(*LlamaConfig::preset("debug"));
  EXPECT_TRUE(plain["rope_scaling"].is_null());
  EXPECT_EQ(plain["rope_parameters"], (Json{{"rope_type", "default"}, {"rope_theta", 10000.0}}));
}

TEST(LlamaHf, AbsentKeysMeanWhatTheyMeanToTransformers) {
  const Json least = {{"model_type", "llama"},          {"hidden_size", 64},
                      {"intermediate_size", 128},       {"num_hidden_layers", 2},
                      {"num_attention_heads", 4},       {"vocab_size", 100},
                      {"num_key_value_heads", nullptr}, {"head_dim", nullptr}};
  const auto config = llama_config_from_hf(least, "f");
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_FALSE(config.tie_embeddings);
  EXPECT_EQ(config.rope_scaling.factor, 1.0);
}

std::string fault_with(const std::string& key, const Json& value) {
  auto config = llama_3_1_8b_of_transformers_4();
  config[key] = value;
  try {
    llama_config_from_hf(config, "dir/config.json");
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), testing::StartsWith("dir/config.json: "));
    return e.what();
  }
  return "no fault";
}

TEST(LlamaHf, RefusesWhatItCannotHonourAndNamesTheKey) {
  EXPECT_THAT(fault_with("head_dim", 64), HasSubstr("head_dim: 64 is not"));
  EXPECT_THAT(fault_with("attention_bias", true), HasSubstr("attention_bias: "));
  EXPECT_THAT(fault_with("mlp_bias", true), HasSubstr("mlp_bias: "));
  EXPECT_THAT(fault_with("hidden_act", "gelu"), HasSubstr("hidden_act: gelu"));
  EXPECT_THAT(fault_with("attention_dropout", 0.1), HasSubstr("attention_dropout: "));
  EXPECT_THAT(fault_with("quantization_config", Json{{"bits", 4}}),
              HasSubstr("quantization_config: "));
  EXPECT_THAT(fault_with("model_type", "mistral"), HasSubstr("model_type: "));
  EXPECT_THAT(fault_with("architectures", {"LlamaModel"}), HasSubstr("architectures: "));
  EXPECT_THAT(fault_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}),
              HasSubstr("rope_scaling.rope_type: yarn"));
  EXPECT_THAT(fault_with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
              HasSubstr("linear"));
  EXPECT_THAT(fault_with("rope_scaling", {{"rope_type", "llama3"}}),
              HasSubstr("rope_scaling.factor: missing"));
  EXPECT_THAT(fault_with("rope_scaling", 3), HasSubstr("rope_scaling is not an object"));
  EXPECT_THAT(fault_with("rope_parameters", {{"rope_type", "default"}}),
              HasSubstr("differs from rope_parameters"));
  EXPECT_THAT(fault_with("rope_parameters", {{"rope_theta", 1e4},
                                             {"rope_type", "llama3"},
                                             {"factor", 8},
                                             {"low_freq_factor", 1},
                                             {"high_freq_factor", 4},
                                             {"original_max_position_embeddings", 8192}}),
              HasSubstr("rope_theta: differs"));
}

TEST(LlamaHf, RefusesHostileValues) {
  EXPECT_THAT(fault_with("hidden_size", nullptr), HasSubstr("hidden_size: missing"));
  EXPECT_THAT(fault_with("hidden_size", "4096"),
              HasSubstr("hidden_size: \"4096\" is not an integer"));
  EXPECT_THAT(fault_with("hidden_size", 4096.5), HasSubstr("is not an integer"));
  EXPECT_THAT(fault_with("hidden_size", 18446744073709551615u), HasSubstr("too large"));
  EXPECT_THAT(fault_with("num_hidden_layers", 1000000000), HasSubstr("num_layers: 1000000000"));
  EXPECT_THAT(fault_with("num_attention_heads", 0), HasSubstr("num_heads: 0"));
  EXPECT_THAT(fault_with("num_attention_heads", 33), HasSubstr("num_heads: 33 does not divide"));
  EXPECT_THAT(fault_with("vocab_size", 0), HasSubstr("vocab_size: 0"));
  EXPECT_THAT(fault_with("rope_theta", "big"), HasSubstr("rope_theta: \"big\" is not a number"));
  EXPECT_THAT(fault_with("tie_word_embeddings", 1),
              HasSubstr("tie_word_embeddings: 1 is not true or false"));
  EXPECT_THROW(llama_config_from_hf(Json::array(), "f"), CheckpointError);
}

TEST(LlamaHf, NamesAreLlamaForCausalLMs) {
  EXPECT_EQ(llama_hf_name("embed.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(llama_hf_name("norm.weight"), "model.norm.weight");
  EXPECT_EQ(llama_hf_name("head.weight"), "lm_head.weight");
  EXPECT_EQ(llama_hf_name("blocks.12.norm1.weight"), "model.layers.12.input_layernorm.weight");
  EXPECT_EQ(llama_hf_name("blocks.0.norm2.weight"),
            "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(llama_hf_name("blocks.0.attention.q_proj.weight"),
            "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(llama_hf_name("blocks.0.mlp.down_proj.weight"), "model.layers.0.mlp.down_proj.weight");
  EXPECT_THROW(llama_hf_name("blocks.0.attention.qkv.weight"), AssertionError);
  EXPECT_THROW(llama_hf_name("blocks.0"), AssertionError);
  EXPECT_THROW(llama_hf_name("bias"), AssertionError);
}

TEST(LlamaHf, EverySegmentOfASpecHasAName) {
  for (const auto& layer : llama_spec(*LlamaConfig::preset("debug")).layers) {
    for (const auto& parameter : layer.parameters) {
      for (const auto& segment : parameter.segments) {
        EXPECT_THAT(llama_hf_name(segment.fqn), testing::EndsWith(".weight"));
      }
    }
  }
}

}  // namespace
}  // namespace coeus::models
