#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace coeus {
namespace {

RandomBlock philox(RandomBlock counter, std::uint32_t key0, std::uint32_t key1) {
  return philox4x32(counter, key0, key1);
}
std::vector<std::uint32_t> words(const RandomBlock& b) {
  return {b.word, b.word + 4};
}

double phi(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double density(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

// The known answers that Random123 publishes (kat_vectors, philox4x32 with 10 rounds).
TEST(Random, PhiloxGivesThePublishedAnswers) {
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(words(philox({{0, 0, 0, 0}}, 0, 0)),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(words(philox({{f, f, f, f}}, f, f)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, InverseCdfIsWithinATenMillionthOfADeviation) {
  double worst = 0;
  const auto probe = [&](double p) {
    const double x = inverse_normal_cdf(p);
    const double tail_error = p < 0.5 ? phi(x) - p : (1 - p) - phi(-x);
    worst = std::max(worst, std::fabs(tail_error) / density(x));
  };
  for (int i = 1; i < 100000; ++i) probe(i / 100000.0);
  for (double p = 0.5; p > 0x1p-33; p *= 0.99) {
    probe(p);
    probe(1 - p);
  }
  EXPECT_LT(worst, 1e-7);
}

TEST(Random, InverseCdfIsFiniteAtTheEndsAndOdd) {
  EXPECT_NEAR(inverse_normal_cdf(0.0), -6.3, 0.2);
  EXPECT_NEAR(inverse_normal_cdf(1.0), 6.3, 0.2);
  EXPECT_NEAR(inverse_normal_cdf(0.5), 0.0, 1e-9);
  EXPECT_EQ(inverse_normal_cdf(0.25), -inverse_normal_cdf(0.75));
  EXPECT_NEAR(inverse_normal_cdf(0.975), 1.959963984540054, 1e-9);
}

// Any change of these bits changes every model's initial weights.
TEST(Random, BitsOfAKeyAreFixed) {
  const RandomKey key = make_random_key(42, 0, "blocks.0.attention.q_proj.weight");
  EXPECT_EQ(random_bits(key, 0), 0x34470340u);
  EXPECT_EQ(random_bits(key, 123456789012345ull), 0x4831b8c8u);
  EXPECT_EQ(truncated_normal(key, 7), 0x1.22be0c0249e16p-1);
}

TEST(Random, EveryPartOfAKeyMatters) {
  const auto first = [](std::uint64_t seed, std::uint64_t step, const char* fqn) {
    return random_bits(make_random_key(seed, step, fqn), 0);
  };
  EXPECT_NE(first(1, 0, "a"), first(2, 0, "a"));
  EXPECT_NE(first(1, 0, "a"), first(1, 1, "a"));
  EXPECT_NE(first(1, 0, "a"), first(0, 1, "a"));
  EXPECT_NE(first(1, 0, "a"), first(1, 0, "b"));
  EXPECT_EQ(first(1, 0, "a"), first(1, 0, "a"));
}

TEST(Random, AnElementDependsOnAll64BitsOfItsIndex) {
  const RandomKey key = make_random_key(1, 0, "w");
  EXPECT_NE(random_bits(key, 1), random_bits(key, 1 + (1ull << 40)));
  EXPECT_NE(random_bits(key, 4), random_bits(key, 5));
}

TEST(Random, TruncatedNormalHasTheMomentsOfANormalCutAtThree) {
  const RandomKey key = make_random_key(3, 0, "w");
  const int n = 1 << 20;
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < n; ++i) {
    const double x = truncated_normal(key, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::fabs(x));
  }
  const double variance = 1 - 2 * 3 * density(3) / (1 - 2 * phi(-3));
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, variance, 6 / std::sqrt(n));
  EXPECT_LE(largest, 3.0);
  EXPECT_GT(largest, 2.99);
}

}  // namespace
}  // namespace coeus
