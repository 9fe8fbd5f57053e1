#include "models/deepseek_v3/hf.h"

#include <fmt/format.h>

#include "models/hf_keys.h"
#include "models/hf_names.h"
#include "models/hf_rope.h"

namespace coeus::models {
namespace {

constexpr std::array kDeepseekNames = {
    HfName{"blocks.#.attention.q_proj.weight", "model.layers.#.self_attn.q_proj.weight"},
    HfName{"blocks.#.attention.q_a_proj.weight", "model.layers.#.self_attn.q_a_proj.weight"},
    HfName{"blocks.#.attention.q_a_norm.weight", "model.layers.#.self_attn.q_a_layernorm.weight"},
    HfName{"blocks.#.attention.q_b_proj.weight", "model.layers.#.self_attn.q_b_proj.weight"},
    HfName{"blocks.#.attention.kv_a_proj.weight",
           "model.layers.#.self_attn.kv_a_proj_with_mqa.weight"},
    HfName{"blocks.#.attention.kv_a_norm.weight", "model.layers.#.self_attn.kv_a_layernorm.weight"},
    HfName{"blocks.#.attention.kv_b_proj.weight", "model.layers.#.self_attn.kv_b_proj.weight"},
    HfName{"blocks.#.moe.router.bias", "model.layers.#.mlp.gate.e_score_correction_bias"},
    HfName{"blocks.#.moe.shared.gate_proj.weight",
           "model.layers.#.mlp.shared_experts.gate_proj.weight"},
    HfName{"blocks.#.moe.shared.up_proj.weight",
           "model.layers.#.mlp.shared_experts.up_proj.weight"},
    HfName{"blocks.#.moe.shared.down_proj.weight",
           "model.layers.#.mlp.shared_experts.down_proj.weight"},
};

YarnScaling read_scaling(const HfKeys& keys, const std::string& type) {
  if (type != "yarn") {
    keys.fail("rope_type", fmt::format("{} is not supported, only default and yarn", type));
  }
  if (keys.find("attention_factor")) keys.fail("attention_factor", "is not supported");
  keys.only("truncate", true);
  return {.factor = keys.required("factor", keys.number("factor")),
          .beta_fast = keys.number("beta_fast").value_or(32.0),
          .beta_slow = keys.number("beta_slow").value_or(1.0),
          .mscale = keys.number("mscale").value_or(0.0),
          .mscale_all_dim = keys.number("mscale_all_dim").value_or(0.0),
          .original_max_position_embeddings = keys.size("original_max_position_embeddings")};
}

// What DeepSeek's configurations can say and this model cannot do.
void check_honoured(const HfKeys& keys) {
  check_architecture(keys, "deepseek_v3", "DeepseekV3ForCausalLM");
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers"}) {
    if (keys.integer(key).value_or(0) != 0) {
      keys.fail(key, "modules that predict further tokens are not supported; 0 leaves them out");
    }
  }
  keys.only("scoring_func", "sigmoid");
  keys.only("topk_method", "noaux_tc");
  keys.only("moe_layer_freq", 1);
  keys.only("rope_interleave", true);
}

}  // namespace

Json deepseek_v3_hf_config(const DeepseekV3Config& c) {
  Json config = {{"architectures", {"DeepseekV3ForCausalLM"}},
                 {"model_type", "deepseek_v3"},
                 {"intermediate_size", c.ffn_dim},
                 {"moe_intermediate_size", c.expert_ffn_dim},
                 {"num_key_value_heads", c.num_heads},
                 {"q_lora_rank", c.q_lora_rank > 0 ? Json(c.q_lora_rank) : Json(nullptr)},
                 {"kv_lora_rank", c.kv_lora_rank},
                 {"qk_nope_head_dim", c.qk_nope_head_dim},
                 {"qk_rope_head_dim", c.qk_rope_head_dim},
                 {"v_head_dim", c.v_head_dim},
                 {"rope_interleave", true},
                 {"first_k_dense_replace", c.num_dense_layers},
                 {"moe_layer_freq", 1},
                 {"n_routed_experts", c.num_experts},
                 {"n_shared_experts", c.num_shared_experts},
                 {"num_experts_per_tok", c.top_k},
                 {"n_group", c.num_groups},
                 {"topk_group", c.num_limited_groups},
                 {"topk_method", "noaux_tc"},
                 {"scoring_func", "sigmoid"},
                 {"norm_topk_prob", c.normalize_weights},
                 {"routed_scaling_factor", c.route_scale},
                 {"aux_loss_alpha", c.aux_loss_alpha},
                 {"bias_update_speed", c.bias_update_speed},
                 {"num_nextn_predict_layers", 0}};
  c.write_hf(config);
  Json scaling = nullptr;
  if (const YarnScaling& yarn = c.rope_scaling; yarn.factor != 1.0) {
    scaling = {{"rope_type", "yarn"},
               {"factor", yarn.factor},
               {"beta_fast", yarn.beta_fast},
               {"beta_slow", yarn.beta_slow},
               {"mscale", yarn.mscale},
               {"mscale_all_dim", yarn.mscale_all_dim},
               {"original_max_position_embeddings", yarn.original_max_position_embeddings}};
  }
  write_hf_rope(config, c.rope_theta, std::move(scaling));
  return config;
}

DeepseekV3Config deepseek_v3_config_from_hf(const Json& config, const std::string& where) {
  const HfKeys keys(config, where);
  check_honoured(keys);
  DeepseekV3Config c;
  c.read_hf(keys);
  c.q_lora_rank = keys.integer("q_lora_rank").value_or(0);
  c.kv_lora_rank = keys.size("kv_lora_rank");
  c.qk_nope_head_dim = keys.size("qk_nope_head_dim");
  c.qk_rope_head_dim = keys.size("qk_rope_head_dim");
  c.v_head_dim = keys.size("v_head_dim");
  c.num_dense_layers = keys.size("first_k_dense_replace");
  c.ffn_dim = keys.size("intermediate_size");
  // transformers 5 may write the name that it has for all models with experts.
  const auto num_experts = keys.integer("num_local_experts");
  c.num_experts = num_experts ? *num_experts : keys.size("n_routed_experts");
  c.num_shared_experts = keys.size("n_shared_experts");
  c.top_k = keys.size("num_experts_per_tok");
  c.expert_ffn_dim = keys.size("moe_intermediate_size");
  c.num_groups = keys.size("n_group");
  c.num_limited_groups = keys.size("topk_group");
  c.normalize_weights = keys.boolean("norm_topk_prob").value_or(true);
  c.route_scale = keys.required("routed_scaling_factor", keys.number("routed_scaling_factor"));
  c.aux_loss_alpha = keys.number("aux_loss_alpha").value_or(1e-4);
  c.bias_update_speed = keys.number("bias_update_speed").value_or(1e-3);
  const auto rope = read_hf_rope<YarnScaling>(keys, 10000.0, read_scaling);
  c.rope_theta = rope.theta;
  c.rope_scaling = rope.scaling;
  keys.refuse(c.check());
  keys.only("num_key_value_heads", c.num_heads);
  return c;
}

std::string deepseek_v3_hf_name(const std::string& fqn) {
  return find_hf_name(fqn, {kHfDecoderNames, kHfMlpNames, kDeepseekNames, kHfExpertNames},
                      "DeepSeek-V3");
}

}  // namespace coeus::models
