#include <algorithm>

#include "kernels/cpu_target.h"
#include "kernels/fill.h"

namespace coeus::kernels {
namespace {

COEUS_BODY void fill_body(float* out, std::int64_t count, const RandomKey& key,
                          std::int64_t first_index, double std) {
  const auto one = [&](std::int64_t i) {
    out[i] = static_cast<float>(truncated_normal(key, static_cast<std::uint64_t>(first_index + i)) *
                                std);
  };
  std::int64_t i = 0;
  for (; i < count && (first_index + i) % 4 != 0; ++i) one(i);
  for (; i + 4 <= count; i += 4) {
    const RandomBlock block = random_block(key, static_cast<std::uint64_t>(first_index + i) / 4);
    for (int j = 0; j < 4; ++j) {
      out[i + j] = static_cast<float>(truncated_normal_from_bits(block.word[j]) * std);
    }
  }
  for (; i < count; ++i) one(i);
}

COEUS_TARGET_WIDE void fill_wide(float* out, std::int64_t count, const RandomKey& key,
                                 std::int64_t first_index, double std) {
  fill_body(out, count, key, first_index, std);
}
void fill_baseline(float* out, std::int64_t count, const RandomKey& key, std::int64_t first_index,
                   double std) {
  fill_body(out, count, key, first_index, std);
}

}  // namespace

void fill_normal_cpu(float* out, std::int64_t count, const RandomKey& key, std::int64_t first_index,
                     double std) {
  (has_wide_cpu() ? fill_wide : fill_baseline)(out, count, key, first_index, std);
}

void fill_constant_cpu(float* out, std::int64_t count, float value) {
  std::fill_n(out, count, value);
}

}  // namespace coeus::kernels
