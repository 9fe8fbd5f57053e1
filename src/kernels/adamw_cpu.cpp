#include <algorithm>

#include "kernels/adamw_math.h"
#include "kernels/cpu_target.h"

namespace coeus::kernels {
namespace {

COEUS_BODY void update_body(const AdamWShard& s, const AdamWFactors& f, std::int64_t begin,
                            std::int64_t end) {
  float* __restrict master = s.master;
  float* __restrict exp_avg = s.exp_avg;
  float* __restrict exp_avg_sq = s.exp_avg_sq;
  const float* __restrict grad = s.grad;
  for (std::int64_t i = begin; i < end; ++i) {
    const AdamWElement e = adamw_element(f, {master[i], exp_avg[i], exp_avg_sq[i]}, grad[i]);
    master[i] = e.master;
    exp_avg[i] = e.exp_avg;
    exp_avg_sq[i] = e.exp_avg_sq;
  }
  if (s.bf16 == nullptr) return;
  std::uint16_t* __restrict bf16 = s.bf16;
  for (std::int64_t i = begin; i < end; ++i) bf16[i] = to_bf16(master[i]);
}

COEUS_TARGET_WIDE void update_wide(const AdamWShard& s, const AdamWFactors& f, std::int64_t begin,
                                   std::int64_t end) {
  update_body(s, f, begin, end);
}
void update_baseline(const AdamWShard& s, const AdamWFactors& f, std::int64_t begin,
                     std::int64_t end) {
  update_body(s, f, begin, end);
}

}  // namespace

void adamw_cpu(const AdamWShard& shard, std::int64_t begin, std::int64_t end) {
  if (*shard.apply == 0.0f) return;
  constexpr std::int64_t kChunk = 4096;  // the bf16 pass then finds its input in the cache
  const auto update = has_wide_cpu() ? update_wide : update_baseline;
  const std::int64_t* ends = shard.ranges.ends;
  std::int64_t range = std::upper_bound(ends, ends + shard.ranges.size, begin) - ends;
  for (; begin < end; ++range) {
    const std::int64_t range_end = std::min(end, ends[range]);
    if (shard.ranges.lr_scale[range] >= 0.0f) {
      const AdamWFactors factors = adamw_factors(shard, range);
      for (std::int64_t at = begin; at < range_end; at += kChunk) {
        update(shard, factors, at, std::min(range_end, at + kChunk));
      }
    }
    begin = range_end;
  }
}

}  // namespace coeus::kernels
