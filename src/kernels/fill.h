#pragma once
#include <cstdint>

#include "base/random.h"

namespace coeus::kernels {

// out[i] = std · truncated_normal(key, first_index + i): each element alone, the same bits on CPU
// and GPU. A tensor may be filled in any pieces by any threads.
void fill_normal_cpu(float* out, std::int64_t count, const RandomKey& key, std::int64_t first_index,
                     double std);
void fill_normal_cuda(float* out, std::int64_t count, const RandomKey& key,
                      std::int64_t first_index, double std, void* stream);

void fill_constant_cpu(float* out, std::int64_t count, float value);
void fill_constant_cuda(float* out, std::int64_t count, float value, void* stream);

}  // namespace coeus::kernels
