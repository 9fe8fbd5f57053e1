#pragma once
#include <coeus/nn/linear.h>
#include <coeus/nn/parameter.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.h"

// The heavy operations, each an autograd Node of our own that writes weight gradients through the
// GradTarget. Without a target (a weight that no unit manages) the gradient flows to the leaf as in
// plain libtorch.
namespace coeus::nn::ops {

// What linear keeps of x for its weight gradient: x, or the op that formed it, where that one can
// form it again cheaply from what it keeps itself (norm, SwiGLU).
enum class KeepInput { tensor, producer };
Tensor linear(const Tensor& x, const Parameter& w, const std::shared_ptr<Gemm>& gemm,
              KeepInput keep = KeepInput::tensor);
Tensor embedding(const Tensor& tokens, const Parameter& w);
Tensor rms_norm(const Tensor& x, const Parameter& w, double eps);
// silu(g)·u of x = [..., 2F], g the first half.
Tensor swiglu(const Tensor& gate_up);

struct Qkv {
  Tensor q, k, v;  // [B, T, heads, head_dim]
};
struct Rotation {
  Tensor cos, sin;  // [B, T, 1, head_dim/2] fp32
};
// `scale` of cos and sin makes what is rotated so much longer.
Rotation rotation(const Tensor& positions_BT, const Tensor& inverse_frequencies,
                  double scale = 1.0);
// Which elements of a head turn together: i and i + head_dim/2, or 2i and 2i + 1. The result has
// the halves' order in either case: queries and keys are permuted alike, which no score sees.
enum class RopePairs { halves, neighbours };
Tensor rotate(const Tensor& x_BTHK, const Rotation& rotation, RopePairs pairs);
// Splits the fused projection [B, T, (H + 2·KV)·head_dim].
Qkv split_heads(const Tensor& qkv, std::int64_t head_dim, std::int64_t queries_per_kv);
// split_heads, then q and k rotated (halves), in one step.
Qkv split_and_rotate(const Tensor& qkv, const Rotation& rotation, std::int64_t head_dim,
                     std::int64_t queries_per_kv);

// The rows of W that a rank holds of a larger vocabulary, and how it meets the ranks with the
// others.
struct VocabularyPart {
  std::int64_t first = 0;    // row 0 of W is this token
  std::int64_t largest = 0;  // rows of the largest part: decides the chunks, the same on every rank
  std::function<void(Tensor&)> max, sum;  // in place, over the ranks
};

// Sum over valid labels of −log softmax(x·Wᵀ)[label], [] fp32. See nn::LmHead for what happens to
// gradients.
Tensor linear_cross_entropy(const Tensor& x_NI, const Tensor& labels_N, const Parameter& w,
                            const Tensor& loss_scale, const VocabularyPart* part = nullptr);

}  // namespace coeus::nn::ops
