#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "models/deepseek_v3/kind.h"
#include "models/mixtral/kind.h"
#include "models/qwen3_moe/kind.h"

namespace coeus::models {
namespace {

using testing::HasSubstr;

// Published config.json files, shortened to what matters.
Json mixtral_8x7b() {
  return parse_json(R"({"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000})",
                    "test");
}

Json qwen3_30b_a3b() {
  return parse_json(R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
    "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
    "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
    "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
                    "test");
}

// In bf16 and without its MTP module, as a conversion leaves it.
Json deepseek_v3() {
  return parse_json(R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu",
    "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
    "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                     "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
                     "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
    "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})",
                    "test");
}

Json as_transformers_5_writes_it(Json config) {
  Json rope = config.contains("rope_scaling") ? config["rope_scaling"] : Json(nullptr);
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = rope;
  return config;
}

Json preset(const std::string& kind, const std::string& name) {
  const auto model = make_model_config(kind);
  EXPECT_TRUE(model->apply_preset(name));
  return model->hf_config();
}

TEST(MoeHf, BothSpellingsOfThePublishedConfigsAreThePresets) {
  const struct {
    Json published, preset;
  } pairs[] = {{mixtral_8x7b(), preset("mixtral", "8x7b")},
               {qwen3_30b_a3b(), preset("qwen3_moe", "30b-a3b")},
               {deepseek_v3(), preset("deepseek_v3", "671b")}};
  for (const auto& [published, preset] : pairs) {
    EXPECT_EQ(model_config_from_hf(published, "f")->hf_config(), preset);
    EXPECT_EQ(model_config_from_hf(as_transformers_5_writes_it(published), "f")->hf_config(),
              preset);
  }
}

TEST(MoeHf, ExpertsMayBeCountedUnderTheNameOfTransformers5) {
  Json qwen = qwen3_30b_a3b(), deepseek = deepseek_v3();
  qwen.erase("num_experts");
  qwen["num_local_experts"] = 64;
  deepseek.erase("n_routed_experts");
  deepseek["num_local_experts"] = 64;
  EXPECT_EQ(model_config_from_hf(qwen, "f")->spec().num_experts, 64);
  EXPECT_EQ(model_config_from_hf(deepseek, "f")->spec().num_experts, 64);
}

TEST(MoeHf, AnExportHasNoModulesThatPredictFurtherTokens) {
  EXPECT_EQ(preset("deepseek_v3", "debug")["num_nextn_predict_layers"], 0);
}

std::string fault_with(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  try {
    model_config_from_hf(config, "dir/config.json");
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), testing::StartsWith("dir/config.json: "));
    return e.what();
  }
  return "no fault";
}

TEST(MoeHf, RefusesWhatMixtralCannotHonourAndNamesTheKey) {
  const Json c = mixtral_8x7b();
  EXPECT_THAT(fault_with(c, "sliding_window", 4096), HasSubstr("sliding_window: "));
  EXPECT_THAT(fault_with(c, "router_jitter_noise", 0.1), HasSubstr("router_jitter_noise: "));
  EXPECT_THAT(fault_with(c, "head_dim", 64), HasSubstr("head_dim: 64 is not supported, only 128"));
  EXPECT_THAT(fault_with(c, "num_experts_per_tok", 9), HasSubstr("top_k: 9"));
  EXPECT_THAT(fault_with(c, "num_attention_heads", 0), HasSubstr("num_heads: 0"));
  EXPECT_THAT(fault_with(c, "vocab_size", 0), HasSubstr("vocab_size: 0"));
  EXPECT_THAT(fault_with(c, "hidden_size", "big"), HasSubstr("hidden_size: "));
  EXPECT_THAT(fault_with(c, "rope_scaling", {{"type", "linear"}, {"factor", 2}}),
              HasSubstr("rope_scaling.rope_type: linear is not supported, only default"));
}

TEST(MoeHf, RefusesWhatQwenCannotHonourAndNamesTheKey) {
  const Json c = qwen3_30b_a3b();
  EXPECT_THAT(fault_with(c, "mlp_only_layers", {0}), HasSubstr("mlp_only_layers: [0]"));
  EXPECT_THAT(fault_with(c, "decoder_sparse_step", 2), HasSubstr("decoder_sparse_step: 2"));
  EXPECT_THAT(fault_with(c, "use_sliding_window", true), HasSubstr("use_sliding_window: "));
  EXPECT_THAT(fault_with(c, "attention_bias", true), HasSubstr("attention_bias: "));
  EXPECT_THAT(fault_with(c, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}),
              HasSubstr("yarn is not supported"));
}

TEST(MoeHf, RefusesWhatDeepseekCannotHonourAndNamesTheKey) {
  const Json c = deepseek_v3();
  EXPECT_THAT(fault_with(c, "num_nextn_predict_layers", 1),
              HasSubstr("num_nextn_predict_layers: modules that predict further tokens"));
  EXPECT_THAT(fault_with(c, "num_mtp_layers", 1), HasSubstr("num_mtp_layers: "));
  EXPECT_THAT(fault_with(c, "quantization_config", {{"fmt", "e4m3"}}),
              HasSubstr("quantization_config: "));
  EXPECT_THAT(fault_with(c, "scoring_func", "softmax"), HasSubstr("scoring_func: \"softmax\""));
  EXPECT_THAT(fault_with(c, "topk_method", "greedy"), HasSubstr("topk_method: \"greedy\""));
  EXPECT_THAT(fault_with(c, "moe_layer_freq", 2), HasSubstr("moe_layer_freq: 2"));
  EXPECT_THAT(fault_with(c, "rope_interleave", false), HasSubstr("rope_interleave: false"));
  EXPECT_THAT(fault_with(c, "num_key_value_heads", 8), HasSubstr("num_key_value_heads: 8"));
  EXPECT_THAT(fault_with(c, "n_group", 7), HasSubstr("num_groups: 7"));
  Json scaling = c["rope_scaling"];
  scaling["attention_factor"] = 1.2;
  EXPECT_THAT(fault_with(c, "rope_scaling", scaling), HasSubstr("rope_scaling.attention_factor: "));
  EXPECT_THAT(fault_with(c, "rope_scaling", {{"type", "llama3"}}), HasSubstr("llama3"));
}

TEST(MoeHf, NamesAreThoseOfTheFiles) {
  const auto mixtral = make_model_config("mixtral"), qwen = make_model_config("qwen3_moe"),
             deepseek = make_model_config("deepseek_v3");
  const std::string expert = "blocks.3.moe.experts.12.";
  EXPECT_EQ(mixtral->hf_name("blocks.3.moe.router.weight"),
            "model.layers.3.block_sparse_moe.gate.weight");
  EXPECT_EQ(mixtral->hf_name(expert + "gate_proj.weight"),
            "model.layers.3.block_sparse_moe.experts.12.w1.weight");
  EXPECT_EQ(mixtral->hf_name(expert + "up_proj.weight"),
            "model.layers.3.block_sparse_moe.experts.12.w3.weight");
  EXPECT_EQ(mixtral->hf_name(expert + "down_proj.weight"),
            "model.layers.3.block_sparse_moe.experts.12.w2.weight");
  EXPECT_EQ(qwen->hf_name("blocks.3.moe.router.weight"), "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(qwen->hf_name(expert + "up_proj.weight"),
            "model.layers.3.mlp.experts.12.up_proj.weight");
  EXPECT_EQ(qwen->hf_name("blocks.3.attention.q_norm.weight"),
            "model.layers.3.self_attn.q_norm.weight");
  EXPECT_EQ(deepseek->hf_name("blocks.3.attention.kv_a_proj.weight"),
            "model.layers.3.self_attn.kv_a_proj_with_mqa.weight");
  EXPECT_EQ(deepseek->hf_name("blocks.3.attention.q_a_norm.weight"),
            "model.layers.3.self_attn.q_a_layernorm.weight");
  EXPECT_EQ(deepseek->hf_name("blocks.3.moe.router.bias"),
            "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(deepseek->hf_name("blocks.3.moe.shared.up_proj.weight"),
            "model.layers.3.mlp.shared_experts.up_proj.weight");
  EXPECT_EQ(deepseek->hf_name("blocks.0.mlp.up_proj.weight"), "model.layers.0.mlp.up_proj.weight");
}

}  // namespace
}  // namespace coeus::models
