#pragma once
#include <cmath>
#include <cstdint>

#include "base/random.h"  // COEUS_HOST_DEVICE
#include "kernels/adamw.h"

// The arithmetic of one AdamW update, shared by the kernel and its CPU twin.
namespace coeus::kernels {

// What all elements of a range have in common.
struct AdamWFactors {
  float keep, step, inverse_sqrt_correction2, clip, beta1, beta2, eps;
};

COEUS_HOST_DEVICE AdamWFactors adamw_factors(const AdamWShard& s, std::int64_t range) {
  const double count = *s.count;
  const double lr = double{*s.lr} * s.ranges.lr_scale[range];
  const double correction1 = 1.0 - pow(s.beta1, count), correction2 = 1.0 - pow(s.beta2, count);
  return {.keep = static_cast<float>(1.0 - lr * s.ranges.weight_decay[range]),
          .step = static_cast<float>(lr / correction1),
          .inverse_sqrt_correction2 = static_cast<float>(1.0 / sqrt(correction2)),
          .clip = *s.clip,
          .beta1 = static_cast<float>(s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .eps = static_cast<float>(s.eps)};
}

struct AdamWElement {
  float master, exp_avg, exp_avg_sq;
};

COEUS_HOST_DEVICE AdamWElement adamw_element(const AdamWFactors& f, AdamWElement e, float grad) {
  const float g = grad * f.clip;
  const float m = e.exp_avg + (1.0f - f.beta1) * (g - e.exp_avg);
  const float v = f.beta2 * e.exp_avg_sq + (1.0f - f.beta2) * (g * g);
  const float denominator = sqrtf(v) * f.inverse_sqrt_correction2 + f.eps;
  return {e.master * f.keep - f.step * (m / denominator), m, v};
}

// Round to nearest even; NaN stays NaN.
COEUS_HOST_DEVICE std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(x == x ? rounded : 0x7fc0u);
}

}  // namespace coeus::kernels
