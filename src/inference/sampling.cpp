#include "inference/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace coeus::inference {
namespace {

std::int64_t likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw Error(ExitCode::failed, "the model's logits are not numbers");
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<std::int64_t>(best);
}

// The tokens that may be drawn, likeliest first.
std::vector<std::size_t> candidates(std::span<const float> logits, std::int64_t top_k) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (top_k > 0 && static_cast<std::size_t>(top_k) < order.size()) {
    std::partial_sort(order.begin(), order.begin() + top_k, order.end(), likelier);
    order.resize(static_cast<std::size_t>(top_k));
  } else {
    std::sort(order.begin(), order.end(), likelier);
  }
  return order;
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0)) throw UsageError("--temperature must be 0 or more");
  if (options.top_k < 0) throw UsageError("--top-k must be 0 (off) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) throw UsageError("--top-p must lie in (0, 1]");
}

std::int64_t sample(std::span<const float> logits, const SamplingOptions& options,
                    const RandomKey& key, std::uint64_t index) {
  COEUS_ASSERT(!logits.empty(), "no logits");
  const std::int64_t best = likeliest(logits);
  if (options.temperature == 0) return best;
  const std::vector<std::size_t> tokens = candidates(logits, options.top_k);
  const double top = logits[static_cast<std::size_t>(best)];
  std::vector<double> weights;
  double total = 0;
  for (std::size_t token : tokens) {
    weights.push_back(std::exp((logits[token] - top) / options.temperature));
    total += weights.back();
  }
  if (!std::isfinite(total)) throw Error(ExitCode::failed, "the model's logits are not finite");
  double kept = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total)) {
    kept += weights[count++];
  }
  double left = uniform(key, index) * kept;
  std::size_t chosen = 0;
  while (chosen + 1 < count && left >= weights[chosen]) left -= weights[chosen++];
  return static_cast<std::int64_t>(tokens[chosen]);
}

}  // namespace coeus::inference
