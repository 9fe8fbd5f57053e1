#pragma once
#include <cstdint>
#include <span>

#include "base/random.h"

namespace coeus::inference {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the likeliest token, whatever the seed
  std::int64_t top_k = 0;    // only the k likeliest; 0: all
  double top_p = 1.0;        // only the fewest likeliest that together reach this probability
  std::uint64_t seed = 0;
};

// Throws UsageError naming the option that is out of range.
void check(const SamplingOptions& options);

// The token drawn at `index` of the text, a pure function of its arguments. Of equal logits the
// smaller token counts as likelier. Throws Error if no logit is finite.
std::int64_t sample(std::span<const float> logits, const SamplingOptions& options,
                    const RandomKey& key, std::uint64_t index);

}  // namespace coeus::inference
