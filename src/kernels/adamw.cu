#include "kernels/adamw_math.h"
#include "kernels/launch.h"

namespace coeus::kernels {
namespace {

constexpr int kThreads = 256, kVector = 4, kVectorsPerThread = 4;
constexpr int kElementsPerBlock = kThreads * kVector * kVectorsPerThread;

__device__ std::int64_t range_of(const AdamWRanges& ranges, std::int64_t index) {
  std::int64_t low = 0, high = ranges.size - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (index < ranges.ends[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

__device__ void update_one(const AdamWShard& s, const AdamWFactors& f, std::int64_t i) {
  const AdamWElement e = adamw_element(f, {s.master[i], s.exp_avg[i], s.exp_avg_sq[i]}, s.grad[i]);
  s.master[i] = e.master;
  s.exp_avg[i] = e.exp_avg;
  s.exp_avg_sq[i] = e.exp_avg_sq;
  if (s.bf16 != nullptr) s.bf16[i] = to_bf16(e.master);
}

__device__ void update_vector(const AdamWShard& s, const AdamWFactors& f, std::int64_t i) {
  float4 master = *reinterpret_cast<const float4*>(s.master + i);
  float4 m = *reinterpret_cast<const float4*>(s.exp_avg + i);
  float4 v = *reinterpret_cast<const float4*>(s.exp_avg_sq + i);
  const float4 grad = *reinterpret_cast<const float4*>(s.grad + i);
  const auto lane = [&](float& p, float& mean, float& square, float g) {
    const AdamWElement e = adamw_element(f, {p, mean, square}, g);
    p = e.master, mean = e.exp_avg, square = e.exp_avg_sq;
  };
  lane(master.x, m.x, v.x, grad.x);
  lane(master.y, m.y, v.y, grad.y);
  lane(master.z, m.z, v.z, grad.z);
  lane(master.w, m.w, v.w, grad.w);
  *reinterpret_cast<float4*>(s.master + i) = master;
  *reinterpret_cast<float4*>(s.exp_avg + i) = m;
  *reinterpret_cast<float4*>(s.exp_avg_sq + i) = v;
  if (s.bf16 != nullptr) {
    *reinterpret_cast<ushort4*>(s.bf16 + i) =
        make_ushort4(to_bf16(master.x), to_bf16(master.y), to_bf16(master.z), to_bf16(master.w));
  }
}

// Most blocks lie in one range; its factors are then computed once, by one thread. Elsewhere each
// element looks up its own.
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamWShard s) {
  if (*s.apply == 0.0f) return;
  const std::int64_t begin = std::int64_t{blockIdx.x} * kElementsPerBlock;
  const std::int64_t end = min(begin + kElementsPerBlock, s.size);
  __shared__ AdamWFactors shared_factors;
  __shared__ std::int64_t first_range, last_range;
  if (threadIdx.x == 0) {
    first_range = range_of(s.ranges, begin);
    last_range = range_of(s.ranges, end - 1);
    shared_factors = adamw_factors(s, first_range);
  }
  __syncthreads();
  if (first_range == last_range) {
    if (s.ranges.lr_scale[first_range] < 0.0f) return;
    const AdamWFactors f = shared_factors;
    for (std::int64_t i = begin + threadIdx.x * kVector; i < end; i += kThreads * kVector) {
      if (i + kVector <= end) {
        update_vector(s, f, i);
      } else {
        for (std::int64_t j = i; j < end; ++j) update_one(s, f, j);
      }
    }
    return;
  }
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::int64_t range = range_of(s.ranges, i);
    if (s.ranges.lr_scale[range] < 0.0f) continue;
    update_one(s, adamw_factors(s, range), i);
  }
}

}  // namespace

void adamw_cuda(const AdamWShard& shard, void* stream) {
  if (shard.size == 0) return;
  const auto blocks =
      static_cast<unsigned>((shard.size + kElementsPerBlock - 1) / kElementsPerBlock);
  adamw_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(shard);
  check_launch("adamw");
}

}  // namespace coeus::kernels
