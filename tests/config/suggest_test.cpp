#include "config/suggest.h"

#include <gtest/gtest.h>

namespace coeus::config {
namespace {

TEST(Nearest, FindsTyposSwapsCaseAndParts) {
  const std::vector<std::string> keys = {"warmup_steps", "decay_ratio", "min_lr_ratio", "name",
                                         "lr"};
  EXPECT_EQ(nearest("warmup_step", keys), "warmup_steps");
  EXPECT_EQ(nearest("wramup_steps", keys), "warmup_steps");
  EXPECT_EQ(nearest("warmup-steps", keys), "warmup_steps");
  EXPECT_EQ(nearest("warmup", keys), "warmup_steps");
  EXPECT_EQ(nearest("Name", keys), "name");
}

TEST(Nearest, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest("tensorboard", {"lr", "name"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
  EXPECT_EQ(did_you_mean("nmae", {"name"}), "; did you mean name?");
}

}  // namespace
}  // namespace coeus::config
