#include "optim/clip.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/torch.h"

namespace coeus::optim {
namespace {

FlatShard shard_with(const Tensor& grad) {
  FlatShard shard;
  shard.grad = grad;
  shard.counted = {{0, grad.numel()}};
  return shard;
}

TEST(Clip, SumOfSquaresRunsOverAllShards) {
  const Tensor a = at::arange(1000, at::kFloat), b = at::full({77}, 2.0f);
  const Tensor sum = sum_of_squares({shard_with(a), shard_with(b)});
  EXPECT_EQ(sum.scalar_type(), at::kDouble);
  EXPECT_DOUBLE_EQ(sum.item<double>(), 332833500.0 + 4 * 77);
}

TEST(Clip, FactorIsOneBelowTheLimitAndScalesAboveIt) {
  const auto factor = [](double norm, double limit) {
    return clip_factor(at::tensor(norm, at::kDouble), limit).item<float>();
  };
  EXPECT_EQ(factor(0.5, 1.0), 1.0f);
  EXPECT_FLOAT_EQ(factor(4.0, 1.0), 0.25f);
  EXPECT_EQ(factor(0.0, 1.0), 1.0f);
  EXPECT_EQ(factor(1e9, 0.0), 1.0f);
  EXPECT_EQ(factor(std::numeric_limits<double>::infinity(), 1.0), 0.0f);
}

}  // namespace
}  // namespace coeus::optim
