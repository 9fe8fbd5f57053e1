#pragma once
#include "nn/attention/block.h"

// The ways to compute a block. Shapes as in block.h.
namespace coeus::nn {

// Which of the block's pairs a mask has to rule out, documents aside.
bool hides_later_keys(const Block& block, const AttentionMask& mask);
bool hides_far_keys(const Block& block, const AttentionMask& mask);
// [B or 1, T, S]: whether the query sees the key. Undefined: each sees each.
Tensor visible(const Tensor& q, const Block& block, const AttentionContext& context);
// The log-sum-exp as an exponent's subtrahend: exp(−inf − it) must be 0 where no key was seen.
Tensor subtrahend(const Tensor& lse);

// Plain softmax attention in fp32, on any device, with any mask.
AttentionOut attend_by_math(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                            const AttentionContext& context);
QkvGradients attend_by_math_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Attended& attended, const Block& block,
                                     const AttentionContext& context);

// libtorch's flash kernel for CPU, in fp32. Takes any mask, but no gradient of the log-sum-exp.
AttentionOut attend_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                           const AttentionContext& context);
QkvGradients attend_on_cpu_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Attended& attended, const Block& block,
                                    const AttentionContext& context);

// libtorch's FlashAttention for CUDA, where it applies; no gradient of the log-sum-exp.
bool flash_applies(const Tensor& q, const Tensor& v, const Block& block,
                   const AttentionContext& context);
AttentionOut attend_by_flash(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                             const AttentionContext& context);
QkvGradients attend_by_flash_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Attended& attended, const Block& block,
                                      const AttentionContext& context);

}  // namespace coeus::nn
