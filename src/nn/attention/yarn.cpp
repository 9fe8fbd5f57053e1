#include "nn/attention/yarn.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coeus::nn {
namespace {

double growth(const YarnOptions& o, double mscale) {
  return o.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(o.factor) + 1.0;
}

// The pair (not whole) that turns so many times in the original context.
double pair_that_turns(double times, std::int64_t head_dim, double theta, const YarnOptions& o) {
  const double wavelength = static_cast<double>(o.original_max_position_embeddings) / times;
  return static_cast<double>(head_dim) * std::log(wavelength / (2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

}  // namespace

std::vector<float> yarn_inverse_frequencies(std::int64_t head_dim, double theta,
                                            const YarnOptions& o) {
  const double low = std::max(std::floor(pair_that_turns(o.beta_fast, head_dim, theta, o)), 0.0);
  double high = std::min(std::ceil(pair_that_turns(o.beta_slow, head_dim, theta, o)),
                         static_cast<double>(head_dim - 1));
  if (high == low) high += 0.001;  // a step instead of a ramp
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double f = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / head_dim);
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies.push_back(static_cast<float>(f / o.factor * slowed + f * (1.0 - slowed)));
  }
  return frequencies;
}

double yarn_rotation_scale(const YarnOptions& o) {
  const bool both = o.mscale != 0.0 && o.mscale_all_dim != 0.0;
  return both ? growth(o, o.mscale) / growth(o, o.mscale_all_dim) : growth(o, 1.0);
}

double yarn_score_scale(const YarnOptions& o) {
  const double scale = growth(o, o.mscale_all_dim);  // 1 where mscale_all_dim is 0
  return scale * scale;
}

}  // namespace coeus::nn
