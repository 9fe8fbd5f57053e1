#include "layout/segments.h"

#include <gtest/gtest.h>

namespace coeus {
namespace {

ModelSpec two_layer_model(bool tied) {
  ModelSpec spec;
  spec.vocab_size = 10;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.head_dim = 8;
  spec.dim = 32;
  spec.layers = {{"embed", {{"embed.weight", {{"embed.weight", {10, 32}, {}}}}}}, {"head", {}}};
  if (tied) {
    spec.ties = {{"head.weight", "embed.weight"}};
  } else {
    spec.layers[1].parameters = {{"head.weight", {{"head.weight", {10, 32}, {}}}}};
  }
  return spec;
}

TEST(Flops, LeaveOutTheInputEmbeddingUnlessItIsTied) {
  const double attention = 12.0 * 2 * 4 * 8 * 100;
  EXPECT_EQ(two_layer_model(false).num_parameters(), 640);
  EXPECT_EQ(two_layer_model(true).num_parameters(), 320);
  EXPECT_DOUBLE_EQ(two_layer_model(false).flops_per_token(100), 6.0 * 320 + attention);
  EXPECT_DOUBLE_EQ(two_layer_model(true).flops_per_token(100), 6.0 * 320 + attention);
  EXPECT_DOUBLE_EQ(two_layer_model(true).flops_per_token_causal(100), 6.0 * 320 + attention / 2);
}

TEST(Segment, NumElementsOfAScalarIsOne) {
  EXPECT_EQ((Segment{"s", {}, {}}.num_elements()), 1);
}

}  // namespace
}  // namespace coeus
