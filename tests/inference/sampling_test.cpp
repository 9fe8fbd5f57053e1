#include "inference/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace coeus::inference {
namespace {

const std::vector<float> kLogits = {0.0f, 2.0f, 1.0f, -1.0f, 2.0f};

// How often each token is drawn, of 20000.
std::vector<int> histogram(const SamplingOptions& options) {
  const RandomKey key = make_random_key(options.seed, 0, "test");
  std::vector<int> counts(kLogits.size());
  for (std::uint64_t i = 0; i < 20000; ++i) {
    ++counts[static_cast<std::size_t>(sample(kLogits, options, key, i))];
  }
  return counts;
}

TEST(Sampling, DrawsInTheProportionsOfTheSoftmax) {
  const double temperature = 0.7;
  double total = 0;
  for (float logit : kLogits) total += std::exp(logit / temperature);
  const auto counts = histogram({.temperature = temperature});
  for (std::size_t t = 0; t < kLogits.size(); ++t) {
    const double p = std::exp(kLogits[t] / temperature) / total;
    EXPECT_NEAR(counts[t], 20000 * p, 5 * std::sqrt(20000 * p)) << t;
  }
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  EXPECT_EQ(histogram({.temperature = 0}), (std::vector<int>{0, 20000, 0, 0, 0}));
}

TEST(Sampling, TopKKeepsTheKLikeliest) {
  const auto counts = histogram({.top_k = 3});
  EXPECT_EQ(counts[0] + counts[3], 0);
  EXPECT_GT(std::min({counts[1], counts[2], counts[4]}), 0);
  EXPECT_EQ(histogram({.top_k = 1}), (std::vector<int>{0, 20000, 0, 0, 0}));
  EXPECT_EQ(histogram({.top_k = 99}), histogram({}));
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  // Two tokens of 0.385 each, then 0.142: 0.75 needs two, 0.8 needs three.
  const auto two = histogram({.top_p = 0.75}), three = histogram({.top_p = 0.8});
  EXPECT_EQ(two[0] + two[2] + two[3], 0);
  EXPECT_EQ(three[0] + three[3], 0);
  EXPECT_GT(three[2], 0);
  EXPECT_EQ(histogram({.top_p = 1e-9}), (std::vector<int>{0, 20000, 0, 0, 0}));
}

TEST(Sampling, AMaskedTokenIsNeverDrawn) {
  const std::vector<float> logits = {-INFINITY, 0.0f, -INFINITY};
  const RandomKey key = make_random_key(1, 0, "test");
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sample(logits, {}, key, i), 1);
}

TEST(Sampling, LogitsThatAreNoNumbersAreAnError) {
  const RandomKey key = make_random_key(1, 0, "test");
  const std::vector<float> nan = {0.0f, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> none = {-INFINITY, -INFINITY};
  EXPECT_THROW(sample(nan, {.temperature = 0}, key, 0), Error);
  EXPECT_THROW(sample(none, {}, key, 0), Error);
}

TEST(Sampling, OptionsOutOfRangeAreRefused) {
  EXPECT_NO_THROW(check({}));
  EXPECT_THROW(check({.temperature = -0.1}), UsageError);
  EXPECT_THROW(check({.temperature = NAN}), UsageError);
  EXPECT_THROW(check({.top_k = -1}), UsageError);
  EXPECT_THROW(check({.top_p = 0}), UsageError);
  EXPECT_THROW(check({.top_p = 1.1}), UsageError);
}

}  // namespace
}  // namespace coeus::inference
