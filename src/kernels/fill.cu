#include "kernels/fill.h"
#include "kernels/launch.h"

namespace coeus::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 16384;

int blocks_for(std::int64_t work) {
  const std::int64_t blocks = (work + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

// One thread makes the numbers of one Philox block, clipped to [first, first + count).
__global__ void fill_normal_kernel(float* out, std::int64_t count, RandomKey key,
                                   std::int64_t first, double std) {
  const std::int64_t blocks = (first + count + 3) / 4;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t block = first / 4 + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; block < blocks; block += stride) {
    const RandomBlock bits = random_block(key, static_cast<std::uint64_t>(block));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t i = 4 * block + j - first;
      if (i >= 0 && i < count) {
        out[i] = static_cast<float>(truncated_normal_from_bits(bits.word[j]) * std);
      }
    }
  }
}

__global__ void fill_constant_kernel(float* out, std::int64_t count, float value) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < count; i += stride) out[i] = value;
}

}  // namespace

void fill_normal_cuda(float* out, std::int64_t count, const RandomKey& key,
                      std::int64_t first_index, double std, void* stream) {
  if (count == 0) return;
  fill_normal_kernel<<<blocks_for(count / 4 + 2), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      out, count, key, first_index, std);
  check_launch("fill_normal");
}

void fill_constant_cuda(float* out, std::int64_t count, float value, void* stream) {
  if (count == 0) return;
  fill_constant_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      out, count, value);
  check_launch("fill_constant");
}

}  // namespace coeus::kernels
