#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>

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
  for (std::int64_t m = 1; m <= 20; ++m) {
    if (stages > 4 && m % 5 != 3) continue;  // each number of stages takes many threads
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

INSTANTIATE_TEST_SUITE_P(Stages, Schedules, ::testing::Values(2, 3, 4, 5, 6, 7, 8, 16));

TEST(Pipeline, another_number_of_stages_gives_the_same_gradients_within_bounds) {
  const LayoutResult one = run_schedule("1f1b", 1, 1, 4);
  EXPECT_EQ(compare_gradients(one, run_schedule("gpipe", 2, 1, 4)), "");
  EXPECT_EQ(compare_gradients(one, run_schedule("zbv", 3, 2, 4)), "");
}

TEST(PipelineControls, one_bit_of_one_gradient_is_noticed) {
  const LayoutResult two = run_schedule("gpipe", 2, 1, 4);
  LayoutResult changed = two;
  float& g = changed.gradients.at("blocks.9.mlp.up_proj.weight")[3];
  g = std::nextafter(g, 1.0f);
  EXPECT_FALSE(same_bits(two, changed));
}

std::int64_t resident_pages() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident;
}

TEST(Memory, does_not_grow_over_a_hundred_steps) {
  LayoutRun run{.ranks = 8,
                .sizes = {.pp = 2, .dp_shard = 1, .cp = 2, .tp = 2, .ep = 2},
                .micro_batch = 2,
                .steps = 130,
                .model = "qwen3_moe",
                .schedule = "zbv",
                .stages_per_rank = 2,
                .recompute = Recompute::full};
  std::atomic<std::int64_t> early{0}, late{0};
  run.before_step = [&](std::int64_t step, int rank, auto&) {
    if (rank != 0) return;
    if (step == 29) early = resident_pages();
    if (step == 129) late = resident_pages();
  };
  run_threads(run);
  EXPECT_LT(late - early, 1024) << "pages of 4 KiB";  // one activation of one micro-batch is 1 KiB
}

}  // namespace
}  // namespace coeus::testing
