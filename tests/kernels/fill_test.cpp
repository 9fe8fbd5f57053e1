#include "kernels/fill.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace coeus::kernels {
namespace {

TEST(Fill, EveryElementIsTheKeyedNumberOfItsIndex) {
  const RandomKey key = make_random_key(5, 0, "w");
  for (std::int64_t first : {0, 1, 2, 3, 4, 127, 1000003}) {
    for (std::int64_t count : {0, 1, 2, 3, 4, 5, 31, 128, 1001}) {
      std::vector<float> out(static_cast<std::size_t>(count + 1), 7.0f);
      fill_normal_cpu(out.data(), count, key, first, 0.02);
      for (std::int64_t i = 0; i < count; ++i) {
        const double x = truncated_normal(key, static_cast<std::uint64_t>(first + i)) * 0.02;
        ASSERT_EQ(out[static_cast<std::size_t>(i)], static_cast<float>(x)) << first << " " << i;
      }
      EXPECT_EQ(out.back(), 7.0f);
    }
  }
}

TEST(Fill, PiecesFilledInAnyOrderAreTheWhole) {
  const RandomKey key = make_random_key(5, 0, "w");
  std::vector<float> whole(1000), pieces(1000);
  fill_normal_cpu(whole.data(), 1000, key, 10, 1.0);
  fill_normal_cpu(pieces.data() + 333, 667, key, 343, 1.0);
  fill_normal_cpu(pieces.data(), 333, key, 10, 1.0);
  EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), 4000), 0);
}

}  // namespace
}  // namespace coeus::kernels
