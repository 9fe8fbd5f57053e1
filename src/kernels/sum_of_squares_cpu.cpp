#include "kernels/cpu_target.h"
#include "kernels/sum_of_squares.h"

namespace coeus::kernels {
namespace {

COEUS_BODY double sum_body(const float* x, std::int64_t count) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += double{x[i + j]} * double{x[i + j]};
  }
  for (; i < count; ++i) lanes[i % kLanes] += double{x[i]} * double{x[i]};
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}
COEUS_TARGET_WIDE double sum_wide(const float* x, std::int64_t count) {
  return sum_body(x, count);
}
double sum_baseline(const float* x, std::int64_t count) {
  return sum_body(x, count);
}

}  // namespace

void sum_of_squares_cpu(const float* x, std::int64_t count, double* total) {
  *total += (has_wide_cpu() ? sum_wide : sum_baseline)(x, count);
}

}  // namespace coeus::kernels
