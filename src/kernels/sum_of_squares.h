#pragma once
#include <cstdint>

namespace coeus::kernels {

// Number of partial sums that sum_of_squares_cuda needs as scratch.
inline constexpr int kSumOfSquaresScratch = 512;

// *total += Σ x². Summed in fp64 in an order that depends on `count` alone: the same bits each
// time.
void sum_of_squares_cpu(const float* x, std::int64_t count, double* total);
void sum_of_squares_cuda(const float* x, std::int64_t count, double* scratch, double* total,
                         void* stream);

}  // namespace coeus::kernels
