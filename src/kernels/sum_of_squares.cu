#include "kernels/launch.h"
#include "kernels/sum_of_squares.h"

namespace coeus::kernels {
namespace {

constexpr int kThreads = 512;
static_assert(kThreads == kSumOfSquaresScratch, "one block sums all partial sums");

__device__ double block_sum(double value) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = value;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) values[threadIdx.x] += values[threadIdx.x + width];
  }
  return values[0];  // whole in thread 0
}

__global__ void partial_kernel(const float* x, std::int64_t count, double* partial) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  double sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    sum += double{x[i]} * double{x[i]};
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void total_kernel(const double* partial, int blocks, double* total) {
  const double sum = block_sum(static_cast<int>(threadIdx.x) < blocks ? partial[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

void sum_of_squares_cuda(const float* x, std::int64_t count, double* scratch, double* total,
                         void* stream) {
  if (count == 0) return;
  const std::int64_t wanted = (count + 4 * kThreads - 1) / (4 * kThreads);
  const int blocks =
      static_cast<int>(wanted < kSumOfSquaresScratch ? wanted : kSumOfSquaresScratch);
  const auto s = static_cast<cudaStream_t>(stream);
  partial_kernel<<<blocks, kThreads, 0, s>>>(x, count, scratch);
  total_kernel<<<1, kThreads, 0, s>>>(scratch, blocks, total);
  check_launch("sum_of_squares");
}

}  // namespace coeus::kernels
