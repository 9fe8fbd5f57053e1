#pragma once
#include <cstdint>

namespace coeus::kernels {

// What applies to the elements of a flat shard up to `ends[i]`. A range with lr_scale < 0 is
// padding: nothing of it is touched. The last end is the shard's size.
struct AdamWRanges {
  const std::int64_t* ends;
  const float *weight_decay, *lr_scale;
  std::int64_t size;
};

// One update of a flat shard; every pointer is on the device that runs it. All scalars of the step
// are read there, so that the call can lie in a CUDA graph.
struct AdamWShard {
  float* master;
  const float* grad;
  float *exp_avg, *exp_avg_sq;
  std::uint16_t* bf16;  // receives the new weights rounded to nearest even; null: not wanted
  std::int64_t size;
  AdamWRanges ranges;
  const float *lr, *clip, *count, *apply;  // count is 1 at the first update; apply 0: do nothing
  double beta1, beta2, eps;
};

// p ← p·(1 − lr·decay); m, v the running means of g·clip and its square; p ← p − lr/(1−β1ⁿ) ·
// m / (√v/√(1−β2ⁿ) + eps). PyTorch's AdamW, https://arxiv.org/abs/1711.05101 with lr on the decay.
// The CPU function updates elements [begin, end), so that the caller may split it over threads.
void adamw_cpu(const AdamWShard& shard, std::int64_t begin, std::int64_t end);
void adamw_cuda(const AdamWShard& shard, void* stream);

}  // namespace coeus::kernels
