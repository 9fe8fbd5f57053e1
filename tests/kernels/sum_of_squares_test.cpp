#include "kernels/sum_of_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace coeus::kernels {
namespace {

TEST(SumOfSquares, AddsToTheTotalOverOddSizes) {
  for (std::int64_t count : {0, 1, 15, 16, 17, 1000, 100003}) {
    std::vector<float> x(static_cast<std::size_t>(count));
    double expected = 100;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::sin(static_cast<float>(i)) * 3;
      expected += double{x[i]} * double{x[i]};
    }
    double total = 100;
    sum_of_squares_cpu(x.data(), count, &total);
    EXPECT_NEAR(total, expected, 1e-12 * expected) << count;
  }
}

TEST(SumOfSquares, ShowsANonFiniteElement) {
  std::vector<float> x(100, 1.0f);
  x[37] = std::numeric_limits<float>::quiet_NaN();
  double total = 0;
  sum_of_squares_cpu(x.data(), 100, &total);
  EXPECT_FALSE(std::isfinite(total));
}

TEST(SumOfSquares, LargeFiniteValuesDoNotOverflow) {
  std::vector<float> x(100, 3e38f);
  double total = 0;
  sum_of_squares_cpu(x.data(), 100, &total);
  EXPECT_TRUE(std::isfinite(total));
}

}  // namespace
}  // namespace coeus::kernels
