#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/adamw_math.h"

namespace coeus::kernels {
namespace {

// A shard with three ranges, of which the middle one is padding, at sizes no vector divides.
struct Problem {
  std::vector<float> master, grad, exp_avg, exp_avg_sq;
  std::vector<std::uint16_t> bf16;
  std::vector<std::int64_t> ends = {101, 128, 333};
  std::vector<float> weight_decay = {0.1f, 0.0f, 0.0f}, lr_scale = {1.0f, -1.0f, 0.5f};
  float lr = 1e-2f, clip = 0.7f, count = 1, apply = 1;

  Problem() : bf16(333, 0xffff) {
    for (int i = 0; i < 333; ++i) {
      const float x = static_cast<float>(i);
      master.push_back(std::sin(x));
      grad.push_back(std::cos(3 * x) * 0.1f);
      exp_avg.push_back(std::sin(5 * x) * 0.01f);
      exp_avg_sq.push_back(std::fabs(std::sin(7 * x)) * 0.001f);
    }
  }
  AdamWShard shard() {
    return {.master = master.data(),
            .grad = grad.data(),
            .exp_avg = exp_avg.data(),
            .exp_avg_sq = exp_avg_sq.data(),
            .bf16 = bf16.data(),
            .size = 333,
            .ranges = {ends.data(), weight_decay.data(), lr_scale.data(), 3},
            .lr = &lr,
            .clip = &clip,
            .count = &count,
            .apply = &apply,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .eps = 1e-8};
  }
};

struct Reference {
  double p, m, v;
};
// The formula as PyTorch's documentation states it, in double.
Reference reference(const Problem& before, std::size_t i, std::size_t range) {
  const double g = double{before.grad[i]} * before.clip;
  const double lr = double{before.lr} * before.lr_scale[range];
  double p = before.master[i] * (1 - lr * before.weight_decay[range]);
  const double m = 0.9 * before.exp_avg[i] + 0.1 * g;
  const double v = 0.95 * before.exp_avg_sq[i] + 0.05 * g * g;
  const double m_hat = m / (1 - std::pow(0.9, before.count));
  const double v_hat = v / (1 - std::pow(0.95, before.count));
  p -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
  return {p, m, v};
}

TEST(AdamWKernel, FollowsTheFormulaInEachRange) {
  for (float count : {1.0f, 2.0f, 1000.0f}) {
    Problem problem;
    problem.count = count;
    const Problem before = problem;
    adamw_cpu(problem.shard(), 0, 333);
    for (std::size_t i = 0; i < 333; ++i) {
      const std::size_t range = i < 101 ? 0 : i < 128 ? 1 : 2;
      if (range == 1) continue;
      const Reference expected = reference(before, i, range);
      ASSERT_NEAR(problem.master[i], expected.p, 3e-7) << i;
      ASSERT_NEAR(problem.exp_avg[i], expected.m, 1e-8) << i;
      ASSERT_NEAR(problem.exp_avg_sq[i], expected.v, 1e-9) << i;
      ASSERT_EQ(problem.bf16[i], to_bf16(problem.master[i])) << i;
    }
  }
}

TEST(AdamWKernel, LeavesPaddingAlone) {
  Problem problem;
  const Problem before = problem;
  adamw_cpu(problem.shard(), 0, 333);
  for (std::size_t i = 101; i < 128; ++i) {
    EXPECT_EQ(problem.master[i], before.master[i]);
    EXPECT_EQ(problem.exp_avg[i], before.exp_avg[i]);
    EXPECT_EQ(problem.bf16[i], 0xffff);
  }
}

TEST(AdamWKernel, ChangesNothingWhenApplyIsZero) {
  Problem problem;
  problem.apply = 0;
  problem.clip = NAN;
  const Problem before = problem;
  adamw_cpu(problem.shard(), 0, 333);
  EXPECT_EQ(problem.master, before.master);
  EXPECT_EQ(problem.exp_avg, before.exp_avg);
  EXPECT_EQ(problem.exp_avg_sq, before.exp_avg_sq);
  EXPECT_EQ(problem.bf16, before.bf16);
}

TEST(AdamWKernel, GivesTheSameBitsHoweverItIsSplit) {
  Problem whole, split;
  adamw_cpu(whole.shard(), 0, 333);
  for (auto [begin, end] : {std::pair{200, 333}, {0, 3}, {3, 120}, {120, 200}}) {
    adamw_cpu(split.shard(), begin, end);
  }
  EXPECT_EQ(whole.master, split.master);
  EXPECT_EQ(whole.exp_avg_sq, split.exp_avg_sq);
  EXPECT_EQ(whole.bf16, split.bf16);
}

TEST(AdamWKernel, RoundsToNearestEvenBf16) {
  const auto from_bits = [](std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  };
  EXPECT_EQ(to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(to_bf16(from_bits(0x3f808000)), 0x3f80);  // a tie, to even below
  EXPECT_EQ(to_bf16(from_bits(0x3f818000)), 0x3f82);  // a tie, to even above
  EXPECT_EQ(to_bf16(from_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(to_bf16(-INFINITY), 0xff80);
  EXPECT_EQ(to_bf16(from_bits(0x7f7fffff)), 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(to_bf16(from_bits(0xffffffff)) & 0x7fff, 0x7fc0);
}

}  // namespace
}  // namespace coeus::kernels
