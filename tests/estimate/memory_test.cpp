#include "estimate/memory.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace coeus::estimate {
namespace {

// Whole multiples of every alignment used here, so that counts can be written down by hand.
constexpr std::int64_t kBlock = 128 * 64, kTable = 128 * 32, kNorm = 1024;

ParameterSpec parameter(const std::string& fqn, std::int64_t count) {
  return {fqn, {{fqn, {count}, {}}}};
}

ModelSpec model(bool tied = false) {
  ModelSpec spec;
  spec.layers = {{"embed", {parameter("embed.weight", kTable)}},
                 {"blocks.0", {parameter("blocks.0.w", kBlock)}},
                 {"blocks.1", {parameter("blocks.1.w", kBlock)}},
                 {"blocks.2", {parameter("blocks.2.w", kBlock)}},
                 {"norm", {parameter("norm.weight", kNorm)}},
                 {"head", {}}};
  if (tied) {
    spec.ties = {{"head.weight", "embed.weight"}};
  } else {
    spec.layers.back().parameters = {parameter("head.weight", kTable)};
  }
  return spec;
}

constexpr std::int64_t kAll = 3 * kBlock + 2 * kTable + kNorm;

MemoryBytes predict(std::int64_t ranks, const MemoryOptions& options, bool tied = false) {
  return predict_memory(model(tied), ParallelPlan{}.unit("blocks.*"), Mesh(ranks, {}), options);
}

TEST(Memory, OfOneRankIsEveryParameterOnceAKind) {
  const auto bf16 = predict(1, {.compute_bytes = 2});
  EXPECT_EQ(bf16.weights, 2 * kAll);
  EXPECT_EQ(bf16.gradients, 4 * kAll);
  EXPECT_EQ(bf16.master, 4 * kAll);
  EXPECT_EQ(bf16.moments, 8 * kAll);
  EXPECT_EQ(bf16.total(), 18 * kAll);
  const auto fp32 = predict(1, {.compute_bytes = 4});
  EXPECT_EQ(fp32.weights, 4 * kAll);
  EXPECT_EQ(fp32.master, 0) << "the weight is its own master";
}

TEST(Memory, ShardsDivideAndSlotsAreTwoOfEachSize) {
  const auto bytes = predict(4, {.compute_bytes = 2});
  // Three blocks take turns in two slots; the embedding and norm+head have sizes of their own.
  EXPECT_EQ(bytes.weights, 2 * (kAll / 4 + 2 * kBlock + kTable + (kTable + kNorm)));
  // norm+head keeps a full gradient; the others a shard, a slot and its scratch shard.
  EXPECT_EQ(bytes.gradients, 4 * ((3 * kBlock + kTable) / 4 + (kTable + kNorm) +
                                  2 * (kBlock + kBlock / 4) + (kTable + kTable / 4)));
  EXPECT_EQ(bytes.master, 4 * kAll / 4);
  EXPECT_EQ(bytes.moments, 8 * kAll / 4);
}

TEST(Memory, WithoutReshardingWeightsAreWholeAndWithFullAccumulationGradientsAre) {
  const auto bytes = predict(
      4,
      {.compute_bytes = 2, .residency = Residency::persistent, .accumulation = Accumulation::full});
  EXPECT_EQ(bytes.weights, 2 * kAll);
  EXPECT_EQ(bytes.gradients, 4 * kAll);
  EXPECT_EQ(bytes.moments, 8 * kAll / 4);
}

TEST(Memory, ATiedWeightCountsOnceAndKeepsAFullGradient) {
  const auto one = predict(1, {.compute_bytes = 4}, true);
  EXPECT_EQ(one.weights, 4 * (kAll - kTable));
  const auto four = predict(4, {.compute_bytes = 2}, true);
  EXPECT_EQ(four.gradients, 4 * ((3 * kBlock + kNorm) / 4 + kTable + 2 * (kBlock + kBlock / 4) +
                                 (kNorm + kNorm / 4)));
}

TEST(Memory, PureReplicasHoldWhatOneRankHolds) {
  const auto bytes = predict_memory(model(), ParallelPlan{}.unit("blocks.*"),
                                    Mesh(4, {.dp_replicate = 4}), {.compute_bytes = 2});
  EXPECT_EQ(bytes.total(), predict(1, {.compute_bytes = 2}).total());
}

TEST(Memory, PaddingOfOddSizesIsCounted) {
  ModelSpec odd;
  odd.layers = {{"embed", {parameter("embed.weight", 1)}},
                {"norm", {parameter("norm.weight", 129)}},
                {"head", {parameter("head.weight", 130)}}};
  EXPECT_EQ(predict_memory(odd, {}, Mesh(1, {}), {.compute_bytes = 4}).weights,
            4 * (128 + 256 + 256));
}

TEST(Memory, TensorParallelismAndStagesDivideIt) {
  const ParallelPlan plan = ParallelPlan{}.unit("blocks.*").style("**", column_parallel());
  const auto whole = predict_memory(model(), plan, Mesh(1, {}), {.compute_bytes = 2});
  const auto half = predict_memory(model(), plan, Mesh(2, {.tp = 2}), {.compute_bytes = 2});
  EXPECT_NEAR(static_cast<double>(half.total()) / static_cast<double>(whole.total()), 0.5, 0.02);
  const std::size_t n = model().layers.size();
  std::int64_t both = 0;
  for (const StageRange stage : {StageRange{0, n / 2}, StageRange{n / 2, n}}) {
    both +=
        predict_memory(model(), plan, Mesh(2, {.pp = 2}), {.compute_bytes = 2, .stages = {stage}})
            .total();
  }
  EXPECT_EQ(both, whole.total());
}

}  // namespace
}  // namespace coeus::estimate
