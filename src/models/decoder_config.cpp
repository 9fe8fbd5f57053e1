#include "models/decoder_config.h"

#include <coeus/config/fields.h>

namespace coeus::models {

void DecoderConfig::describe(config::Fields& f) {
  f("dim", dim, "residual width", config::between(1, kMaxSize));
  f("num_layers", num_layers, "blocks", config::between(1, kMaxLayers));
  f("num_heads", num_heads, "attention heads", config::between(1, kMaxSize));
  f("vocab_size", vocab_size, "token ids; 0 takes the tokenizer's", config::between(0, kMaxSize));
  f("max_position_embeddings", max_position_embeddings,
    "longest context, as told to readers of the checkpoint", config::at_least(1));
  f("rope_theta", rope_theta, "base of the RoPE frequencies", config::above(1));
  f("norm_eps", norm_eps, "added to the mean square in RMSNorm", config::above(0));
  f("tie_embeddings", tie_embeddings, "the head uses the embedding's weight");
}

void DecoderConfig::check(Faults& faults) const {
  faults.range("dim", dim, 1, kMaxSize);
  faults.range("num_layers", num_layers, 1, kMaxLayers);
  faults.range("num_heads", num_heads, 1, kMaxSize);
  faults.range("vocab_size", vocab_size, 0, kMaxSize);
  faults.range("max_position_embeddings", max_position_embeddings, 1, std::int64_t{1} << 31);
  if (!(rope_theta > 1.0)) faults.add("rope_theta: {} is not above 1", rope_theta);
  if (!(norm_eps > 0.0 && norm_eps < 1.0)) {
    faults.add("norm_eps: {} is not between 0 and 1", norm_eps);
  }
}

void DecoderConfig::write_hf(Json& config) const {
  config["hidden_size"] = dim;
  config["num_hidden_layers"] = num_layers;
  config["num_attention_heads"] = num_heads;
  config["vocab_size"] = vocab_size;
  config["max_position_embeddings"] = max_position_embeddings;
  config["rms_norm_eps"] = norm_eps;
  config["tie_word_embeddings"] = tie_embeddings;
  config["hidden_act"] = "silu";
  config["initializer_range"] = 0.02;
  config["attention_bias"] = false;
  config["attention_dropout"] = 0.0;
  config["use_cache"] = true;
}

void DecoderConfig::read_hf(const HfKeys& keys) {
  dim = keys.size("hidden_size");
  num_layers = keys.size("num_hidden_layers");
  num_heads = keys.size("num_attention_heads");
  vocab_size = keys.size("vocab_size");
  if (vocab_size == 0) keys.fail("vocab_size", "0");
  max_position_embeddings = keys.size("max_position_embeddings");
  norm_eps = keys.required("rms_norm_eps", keys.number("rms_norm_eps"));
  tie_embeddings = keys.boolean("tie_word_embeddings").value_or(false);
}

void GroupedQueryConfig::describe(config::Fields& f) {
  f("num_kv_heads", num_kv_heads, "key and value heads, shared by groups of attention heads",
    config::between(1, kMaxSize));
}

void GroupedQueryConfig::check(Faults& faults, std::int64_t num_heads) const {
  if (!faults.range("num_kv_heads", num_kv_heads, 1, kMaxSize)) return;
  if (num_heads % num_kv_heads != 0) {
    faults.add("num_kv_heads: {} does not divide num_heads {}", num_kv_heads, num_heads);
  }
}

void ExpertsConfig::describe(config::Fields& f) {
  f("num_experts", num_experts, "routed experts of a layer", config::between(1, kMaxSize));
  f("top_k", top_k, "experts that a token is sent to", config::between(1, kMaxSize));
  f("expert_ffn_dim", expert_ffn_dim, "MLP width of one expert", config::between(1, kMaxSize));
  f("aux_loss_alpha", aux_loss_alpha, "weight of the balancing loss; 0 is off",
    config::at_least(0));
}

void ExpertsConfig::check(Faults& faults) const {
  const bool experts_ok = faults.range("num_experts", num_experts, 1, kMaxSize);
  if (faults.range("top_k", top_k, 1, kMaxSize) && experts_ok && top_k > num_experts) {
    faults.add("top_k: {} is more than num_experts {}", top_k, num_experts);
  }
  faults.range("expert_ffn_dim", expert_ffn_dim, 1, kMaxSize);
  if (!(aux_loss_alpha >= 0)) faults.add("aux_loss_alpha: {} is negative", aux_loss_alpha);
}

}  // namespace coeus::models
