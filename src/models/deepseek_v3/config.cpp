#include "models/deepseek_v3/config.h"

#include <coeus/config/fields.h>

namespace coeus::models {
namespace {

DeepseekV3Config debug() {
  DeepseekV3Config c;
  c.vocab_size = 2048;
  c.num_experts = 16;
  c.top_k = 4;
  c.expert_ffn_dim = 128;
  c.num_groups = 4;
  c.num_limited_groups = 2;
  c.route_scale = 2.5;
  c.aux_loss_alpha = 1e-4;
  return c;
}

// Moonlight-16B-A3B, the smaller model published in this architecture.
// https://arxiv.org/abs/2502.16982
DeepseekV3Config moonlight_16b() {
  DeepseekV3Config c;
  c.dim = 2048;
  c.num_layers = 27;
  c.num_heads = 16;
  c.vocab_size = 163840;
  c.rope_theta = 5e4;
  c.norm_eps = 1e-5;
  c.q_lora_rank = 0;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = c.v_head_dim = 128;
  c.qk_rope_head_dim = 64;
  c.ffn_dim = 11264;
  c.num_experts = 64;
  c.top_k = 6;
  c.expert_ffn_dim = 1408;
  c.num_shared_experts = 2;
  c.route_scale = 2.446;
  c.aux_loss_alpha = 1e-3;
  return c;
}

DeepseekV3Config deepseek_671b() {
  DeepseekV3Config c;
  c.dim = 7168;
  c.num_layers = 61;
  c.num_heads = 128;
  c.vocab_size = 129280;
  c.max_position_embeddings = 163840;
  c.q_lora_rank = 1536;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = c.v_head_dim = 128;
  c.qk_rope_head_dim = 64;
  c.rope_scaling.factor = 40;
  c.num_dense_layers = 3;
  c.ffn_dim = 18432;
  c.num_experts = 256;
  c.top_k = 8;
  c.expert_ffn_dim = 2048;
  c.num_groups = 8;
  c.num_limited_groups = 4;
  c.route_scale = 2.5;
  c.aux_loss_alpha = 1e-4;
  return c;
}

void check_groups(const DeepseekV3Config& c, Faults& faults) {
  if (!faults.range("num_groups", c.num_groups, 1, kMaxSize) ||
      !faults.range("num_limited_groups", c.num_limited_groups, 1, kMaxSize)) {
    return;
  }
  if (c.num_limited_groups > c.num_groups) {
    faults.add("num_limited_groups: {} is more than num_groups {}", c.num_limited_groups,
               c.num_groups);
  }
  if (c.num_experts < 1 || c.top_k < 1) return;
  const std::int64_t in_group = c.num_experts / c.num_groups;
  if (c.num_experts % c.num_groups != 0) {
    faults.add("num_groups: {} does not divide num_experts {}", c.num_groups, c.num_experts);
  } else if (in_group < 2) {
    faults.add("num_groups: {} leave one expert each; a group is scored by its best two",
               c.num_groups);
  } else if (c.top_k <= c.num_experts && c.top_k > c.num_limited_groups * in_group) {
    faults.add("top_k: {} is more than the {} experts of num_limited_groups {}", c.top_k,
               c.num_limited_groups * in_group, c.num_limited_groups);
  }
}

}  // namespace

void YarnScaling::describe(config::Fields& f) {
  f("factor", factor, "how much longer the context gets; 1 is off", config::at_least(1));
  f("beta_fast", beta_fast,
    "frequencies that turn more often than this in the original context stay", config::above(0));
  f("beta_slow", beta_slow, "frequencies that turn less often than this are stretched",
    config::above(0));
  f("mscale", mscale, "growth of the rotated parts with the log of factor", config::at_least(0));
  f("mscale_all_dim", mscale_all_dim, "growth of the attention scores with the log of factor",
    config::at_least(0));
  f("original_max_position_embeddings", original_max_position_embeddings,
    "context length before stretching", config::at_least(1));
}

std::vector<std::string> YarnScaling::check() const {
  Faults faults;
  if (!(factor >= 1.0)) faults.add("factor: {} is less than 1", factor);
  if (!(beta_slow > 0.0 && beta_slow < beta_fast)) {
    faults.add("beta_slow: {} is not between 0 and beta_fast {}", beta_slow, beta_fast);
  }
  if (!(mscale >= 0.0)) faults.add("mscale: {} is negative", mscale);
  if (!(mscale_all_dim >= 0.0)) faults.add("mscale_all_dim: {} is negative", mscale_all_dim);
  if (original_max_position_embeddings < 1) {
    faults.add("original_max_position_embeddings: {} is less than 1",
               original_max_position_embeddings);
  }
  return faults.take();
}

void DeepseekV3Config::describe(config::Fields& f) {
  DecoderConfig::describe(f);
  f("rope_scaling", rope_scaling, "RoPE frequencies stretched by YaRN");
  f("q_lora_rank", q_lora_rank, "width that queries are compressed to; 0: they are not",
    config::between(0, kMaxSize));
  f("kv_lora_rank", kv_lora_rank, "width that keys and values are compressed to",
    config::between(1, kMaxSize));
  f("qk_nope_head_dim", qk_nope_head_dim, "part of a query and key that RoPE leaves",
    config::between(1, kMaxSize));
  f("qk_rope_head_dim", qk_rope_head_dim, "part that RoPE turns; all heads share its key",
    config::between(2, kMaxSize));
  f("v_head_dim", v_head_dim, "width of a value", config::between(1, kMaxSize));
  f("num_dense_layers", num_dense_layers, "blocks at the start that have an MLP, not experts",
    config::between(0, kMaxLayers));
  f("ffn_dim", ffn_dim, "width of that MLP", config::between(1, kMaxSize));
  ExpertsConfig::describe(f);
  f("num_shared_experts", num_shared_experts, "experts that every token is sent to as well",
    config::between(1, kMaxSize));
  f("num_groups", num_groups, "groups that the experts fall into", config::between(1, kMaxSize));
  f("num_limited_groups", num_limited_groups, "groups that a token's experts may come from",
    config::between(1, kMaxSize));
  f("normalize_weights", normalize_weights, "the weights of a token's experts sum to 1");
  f("route_scale", route_scale, "factor of these weights", config::above(0));
  f("bias_update_speed", bias_update_speed, "step of the bias that balances the experts",
    config::at_least(0));
}

std::optional<DeepseekV3Config> DeepseekV3Config::preset(const std::string& name) {
  if (name == "debug") return debug();
  if (name == "16b-a3b") return moonlight_16b();
  if (name == "671b") return deepseek_671b();
  return std::nullopt;
}

std::vector<std::string> DeepseekV3Config::preset_names() {
  return {"debug", "16b-a3b", "671b"};
}

std::vector<std::string> DeepseekV3Config::check() const {
  Faults faults;
  DecoderConfig::check(faults);
  faults.range("q_lora_rank", q_lora_rank, 0, kMaxSize);
  faults.range("kv_lora_rank", kv_lora_rank, 1, kMaxSize);
  faults.range("qk_nope_head_dim", qk_nope_head_dim, 1, kMaxSize);
  if (faults.range("qk_rope_head_dim", qk_rope_head_dim, 2, kMaxSize) &&
      qk_rope_head_dim % 2 != 0) {
    faults.add("qk_rope_head_dim: {} is odd; RoPE turns pairs", qk_rope_head_dim);
  }
  faults.range("v_head_dim", v_head_dim, 1, kMaxSize);
  if (faults.range("num_dense_layers", num_dense_layers, 0, kMaxLayers) &&
      num_dense_layers > num_layers) {
    faults.add("num_dense_layers: {} is more than num_layers {}", num_dense_layers, num_layers);
  }
  faults.range("ffn_dim", ffn_dim, 1, kMaxSize);
  ExpertsConfig::check(faults);
  faults.range("num_shared_experts", num_shared_experts, 1, kMaxSize);
  check_groups(*this, faults);
  if (!(route_scale > 0.0)) faults.add("route_scale: {} is not above 0", route_scale);
  if (!(bias_update_speed >= 0.0))
    faults.add("bias_update_speed: {} is negative", bias_update_speed);
  faults.add_below("rope_scaling", rope_scaling.check());
  return faults.take();
}

}  // namespace coeus::models
