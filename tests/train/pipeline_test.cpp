#include <gtest/gtest.h>

#include <cstring>

#include "tests/train/layouts.h"

namespace coeus::testing {
namespace {

bool same_bits(const LayoutResult& a, const LayoutResult& b) {
  if (a.gradients.size() != b.gradients.size() || a.losses != b.losses) return false;
  for (const auto& [fqn, g] : a.gradients) {
    const auto& other = b.gradients.at(fqn);
    if (g.size() != other.size() ||
        std::memcmp(g.data(), other.data(), g.size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

LayoutResult run_schedule(const std::string& schedule, std::int64_t ranks,
                          std::int64_t stages_per_rank, std::int64_t micro_batches) {
  return run_threads({.ranks = static_cast<int>(ranks),
                      .sizes = {.pp = ranks, .dp_shard = 1},
                      .global_batch = micro_batches,
                      .micro_batch = 1,
                      .schedule = schedule,
                      .stages_per_rank = stages_per_rank,
                      .layers = 14,
                      .accumulate = Accumulate::full});
}

// The same stages, one a rank or two: the same sums in the same order.
class Schedules : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Schedules, give_the_bits_of_gpipe) {
  const std::int64_t stages = GetParam();
  for (const std::int64_t m : {1, 2, 3, 5, 8, 13, 20}) {
    if (stages == 16 && m != 3 && m != 13) continue;
    const LayoutResult reference = run_schedule("gpipe", stages, 1, m);
    for (const char* schedule : {"1f1b", "zero_bubble"})
      EXPECT_TRUE(same_bits(reference, run_schedule(schedule, stages, 1, m)))
          << schedule << " of " << stages << " stages, " << m << " micro-batches";
    if (stages % 2 != 0) continue;
    for (const char* schedule : {"interleaved_1f1b", "looped_bfs", "zbv", "dualpipe_v"})
      EXPECT_TRUE(same_bits(reference, run_schedule(schedule, stages / 2, 2, m)))
          << schedule << " of " << stages << " stages, " << m << " micro-batches";
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Schedules, ::testing::Values(2, 3, 4, 6, 8, 16));

TEST(PipelineControls, another_stage_split_is_other_bits_or_the_same_gradients) {
  const LayoutResult two = run_schedule("gpipe", 2, 1, 4), one = run_schedule("1f1b", 1, 1, 4);
  EXPECT_EQ(compare_gradients(one, two), "");
  LayoutResult changed = two;
  changed.gradients.at("blocks.9.mlp.up_proj.weight")[3] += 1e-7f;
  EXPECT_FALSE(same_bits(two, changed));
}

}  // namespace
}  // namespace coeus::testing
