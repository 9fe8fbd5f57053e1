#pragma once
#include <coeus/nn/layers.h>

#include <optional>
#include <tuple>

namespace coeus::nn {

// Which keys a query sees: those of its document and, where set, none later than itself (causal)
// and none `window` or more tokens away.
struct AttentionMask {
  bool causal = true;
  std::int64_t window = 0;  // tokens, the query's own included; 0: no limit
  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;
};

// What an attention core may need beside q, k, v.
struct AttentionContext {
  AttentionMask mask;
  Tensor cu_seqlens;  // [D+1] int32 document starts over the flattened B·sequence_length tokens;
                      // undefined: each sequence is one document
  std::int64_t max_document = 0;
  Tensor positions;    // [B, T] int64 index of each local token within its document
  Tensor token_index;  // [T] int64 index of each local token within its whole sequence; undefined:
                       // 0 … T−1
  std::int64_t sequence_length = 0;  // of the whole sequence; 0: T
  double scale = 0;                  // of q·k
};

struct AttentionOut {
  Tensor out;  // [B, T, H, head dim of v]
  Tensor
      lse;  // [B, H, T] fp32 log-sum-exp of the scores; −inf on a fully masked row, where out is 0
};
template <>
struct TensorPack<AttentionOut> {
  static Tensors pack(AttentionOut o) { return {std::move(o.out), std::move(o.lse)}; }
  static AttentionOut unpack(Tensors t) { return {std::move(t[0]), std::move(t[1])}; }
};

// q [B, T, H, head_dim], k and v [B, S, KV, head_dim] -> out. H is a multiple of KV (grouped
// queries); v may have a head dim of its own. A style may replace it.
using AttentionCore =
    LayerOf<AttentionOut(const Tensor&, const Tensor&, const Tensor&, const AttentionContext&)>;

// libtorch's kernels: flash in fp32 on CPU, flash or, where it does not apply, math on CUDA. The
// queries are the last T of S tokens.
class DenseAttentionCore : public AttentionCore {
  AttentionOut forward(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                       const AttentionContext& context) override;
};

// RoPE, half-split as in Hugging Face; `scaling` as Llama 3.1 does it
// (https://arxiv.org/abs/2407.21783).
struct RopeOptions {
  double theta = 10000.0;
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
};

struct AttentionOptions {
  std::int64_t num_kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;      // 0: dim / heads
  RopeOptions rope;
  AttentionMask mask;
  double o_proj_std = 0.02;
  bool qk_norm = false;  // RMSNorm over head_dim of queries and keys, before RoPE
  double norm_eps = 1e-5;
};

// Causal self-attention with grouped queries and RoPE. The core is the child named "core", the
// norms of queries and keys are "q_norm" and "k_norm".
class SelfAttention : public Layer {
 public:
  SelfAttention(std::int64_t dim, std::int64_t num_heads, const AttentionOptions& options = {});

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override;
  std::tuple<Tensor, Tensor, Tensor> queries_keys_values(const Tensor& x_BTD, const Batch& batch);

  std::int64_t head_dim_, queries_per_kv_;
  Tensor inverse_frequencies_;  // [head_dim/2] fp32, moved once to the device of the first call
  Linear& qkv_;
  RmsNorm* q_norm_ = nullptr;  // both or none
  RmsNorm* k_norm_ = nullptr;
  Seam<AttentionCore> core_;
  AttentionMask mask_;
  Linear& o_proj_;
};

std::vector<float> rope_inverse_frequencies(std::int64_t head_dim, const RopeOptions& options);

}  // namespace coeus::nn
