#include "models/mixtral/hf.h"

#include <fmt/format.h>

#include "models/hf_keys.h"
#include "models/hf_names.h"
#include "models/hf_rope.h"

namespace coeus::models {
namespace {

constexpr std::array kMixtralNames = {
    HfName{"blocks.#.moe.router.weight", "model.layers.#.block_sparse_moe.gate.weight"},
    HfName{"blocks.#.moe.experts.#.gate_proj.weight",
           "model.layers.#.block_sparse_moe.experts.#.w1.weight"},
    HfName{"blocks.#.moe.experts.#.up_proj.weight",
           "model.layers.#.block_sparse_moe.experts.#.w3.weight"},
    HfName{"blocks.#.moe.experts.#.down_proj.weight",
           "model.layers.#.block_sparse_moe.experts.#.w2.weight"},
};

}  // namespace

Json mixtral_hf_config(const MixtralConfig& c) {
  Json config = {{"architectures", {"MixtralForCausalLM"}},
                 {"model_type", "mixtral"},
                 {"intermediate_size", c.expert_ffn_dim},
                 {"num_key_value_heads", c.num_kv_heads},
                 {"head_dim", c.head_dim()},
                 {"num_local_experts", c.num_experts},
                 {"num_experts_per_tok", c.top_k},
                 {"output_router_logits", false},
                 {"router_aux_loss_coef", c.aux_loss_alpha},
                 {"router_jitter_noise", 0.0},
                 {"sliding_window", nullptr}};
  c.write_hf(config);
  write_hf_rope(config, c.rope_theta, nullptr);
  return config;
}

MixtralConfig mixtral_config_from_hf(const Json& config, const std::string& where) {
  const HfKeys keys(config, where);
  check_architecture(keys, "mixtral", "MixtralForCausalLM");
  for (const char* key : {"sliding_window", "router_jitter_noise"}) {
    if (keys.number(key).value_or(0.0) != 0.0) keys.fail(key, "is not supported");
  }
  MixtralConfig c;
  c.read_hf(keys);
  c.num_kv_heads = keys.integer("num_key_value_heads").value_or(8);
  c.expert_ffn_dim = keys.size("intermediate_size");
  c.num_experts = keys.integer("num_local_experts").value_or(8);
  c.top_k = keys.integer("num_experts_per_tok").value_or(2);
  c.aux_loss_alpha = keys.number("router_aux_loss_coef").value_or(0.001);
  c.rope_theta = read_hf_rope_theta(keys, 1e6);
  keys.refuse(c.check());
  keys.only("head_dim", c.head_dim());
  return c;
}

std::string mixtral_hf_name(const std::string& fqn) {
  return find_hf_name(fqn, {kHfDecoderNames, kHfQkvNames, kMixtralNames}, "Mixtral");
}

}  // namespace coeus::models
