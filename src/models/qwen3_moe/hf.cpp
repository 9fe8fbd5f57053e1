#include "models/qwen3_moe/hf.h"

#include "models/hf_keys.h"
#include "models/hf_names.h"
#include "models/hf_rope.h"

namespace coeus::models {
namespace {

constexpr std::array kQwenNames = {
    HfName{"blocks.#.attention.q_norm.weight", "model.layers.#.self_attn.q_norm.weight"},
    HfName{"blocks.#.attention.k_norm.weight", "model.layers.#.self_attn.k_norm.weight"},
};

}  // namespace

Json qwen3_moe_hf_config(const Qwen3MoeConfig& c) {
  Json config = {{"architectures", {"Qwen3MoeForCausalLM"}},
                 {"model_type", "qwen3_moe"},
                 // Of a dense layer, of which there is none: as wide as what a token sees.
                 {"intermediate_size", c.top_k * c.expert_ffn_dim},
                 {"moe_intermediate_size", c.expert_ffn_dim},
                 {"num_key_value_heads", c.num_kv_heads},
                 {"head_dim", c.head_dim},
                 {"num_experts", c.num_experts},
                 {"num_experts_per_tok", c.top_k},
                 {"norm_topk_prob", c.normalize_weights},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", Json::array()},
                 {"output_router_logits", false},
                 {"router_aux_loss_coef", c.aux_loss_alpha},
                 {"use_sliding_window", false},
                 {"sliding_window", nullptr}};
  c.write_hf(config);
  write_hf_rope(config, c.rope_theta, nullptr);
  return config;
}

Qwen3MoeConfig qwen3_moe_config_from_hf(const Json& config, const std::string& where) {
  const HfKeys keys(config, where);
  check_architecture(keys, "qwen3_moe", "Qwen3MoeForCausalLM");
  keys.only("decoder_sparse_step", 1);
  keys.only("mlp_only_layers", Json::array());
  keys.only("use_sliding_window", false);
  Qwen3MoeConfig c;
  c.read_hf(keys);
  c.num_kv_heads = keys.integer("num_key_value_heads").value_or(4);
  const auto head_dim = keys.integer("head_dim");
  c.head_dim = head_dim ? *head_dim : c.num_heads > 0 ? c.dim / c.num_heads : 0;
  c.expert_ffn_dim = keys.size("moe_intermediate_size");
  // transformers 5 may write the name that it has for all models with experts.
  const auto num_experts = keys.integer("num_local_experts");
  c.num_experts = num_experts ? *num_experts : keys.size("num_experts");
  c.top_k = keys.size("num_experts_per_tok");
  c.normalize_weights = keys.boolean("norm_topk_prob").value_or(false);
  c.aux_loss_alpha = keys.number("router_aux_loss_coef").value_or(0.001);
  c.rope_theta = read_hf_rope_theta(keys, 10000.0);
  keys.refuse(c.check());
  return c;
}

std::string qwen3_moe_hf_name(const std::string& fqn) {
  return find_hf_name(fqn, {kHfDecoderNames, kHfQkvNames, kQwenNames, kHfExpertNames}, "Qwen3-MoE");
}

}  // namespace coeus::models
