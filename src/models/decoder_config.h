#pragma once
#include <cstdint>

#include "base/json.h"
#include "models/faults.h"
#include "models/hf_keys.h"

namespace coeus::config {
class Fields;
}

// Keys of the `model:` section that several kinds have; a kind inherits those that are its own.
namespace coeus::models {

// Every decoder.
struct DecoderConfig {
  std::int64_t dim = 256, num_layers = 6, num_heads = 8;
  std::int64_t vocab_size = 0;  // 0: the tokenizer's
  std::int64_t max_position_embeddings = 8192;
  double rope_theta = 1e4, norm_eps = 1e-6;
  bool tie_embeddings = false;

  void describe(config::Fields& f);
  void check(Faults& faults) const;
  // All but RoPE, which has a spelling of its own for each kind.
  void write_hf(Json& config) const;
  void read_hf(const HfKeys& keys);
};

// Queries in groups that share a key and value head.
struct GroupedQueryConfig {
  std::int64_t num_kv_heads = 4;

  void describe(config::Fields& f);
  void check(Faults& faults, std::int64_t num_heads) const;
};

// Routed experts, one SwiGLU each.
struct ExpertsConfig {
  std::int64_t num_experts = 8, top_k = 2, expert_ffn_dim = 256;
  double aux_loss_alpha = 0;

  void describe(config::Fields& f);
  void check(Faults& faults) const;
};

}  // namespace coeus::models
