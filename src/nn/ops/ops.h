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
Rotation rotation(const Tensor& positions_BT, const Tensor& inverse_frequencies);
// Splits the fused projection [B, T, (H + 2·KV)·head_dim] and rotates q and k.
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
