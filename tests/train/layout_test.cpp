#include <gtest/gtest.h>

#include "tests/train/layouts.h"

namespace coeus::testing {
namespace {

struct Case {
  const char* name;
  LayoutRun run;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class Layout : public ::testing::TestWithParam<Case> {};

const LayoutResult& one_rank(const std::string& model, std::int64_t steps) {
  static std::map<std::pair<std::string, std::int64_t>, LayoutResult> known;
  auto& result = known[{model, steps}];
  if (result.losses.empty()) result = run_threads({.steps = steps, .model = model});
  return result;
}

TEST_P(Layout, gives_one_ranks_weights_gradients_and_losses) {
  const LayoutRun& run = GetParam().run;
  const LayoutResult& reference = one_rank(run.model, run.steps);
  const LayoutResult result = run_threads(run);
  EXPECT_EQ(result.initial_hash, reference.initial_hash);
  EXPECT_EQ(compare_gradients(reference, result), "");
  EXPECT_EQ(compare_losses(reference, result), "");
}

INSTANTIATE_TEST_SUITE_P(
    Fifty, Layout,
    ::testing::Values(
        Case{"shard4", {.ranks = 4, .micro_batch = 2, .steps = 50}},
        Case{"shard4_tied", {.ranks = 4, .steps = 50, .model = "llama_tied"}},
        Case{"replicate4",
             {.ranks = 4, .sizes = {.dp_replicate = 4}, .micro_batch = 1, .steps = 50}},
        Case{"replicate4_tied",
             {.ranks = 4, .sizes = {.dp_replicate = 4}, .steps = 50, .model = "llama_tied"}},
        Case{"replicate2_shard2",
             {.ranks = 4, .sizes = {.dp_replicate = 2}, .micro_batch = 2, .steps = 50}},
        Case{"replicate2_shard2_tied",
             {.ranks = 4,
              .sizes = {.dp_replicate = 2},
              .micro_batch = 1,
              .steps = 50,
              .model = "llama_tied"}},
        Case{"one_rank_split", {.micro_batch = 1, .steps = 50}},
        Case{"one_rank_split_tied", {.micro_batch = 2, .steps = 50, .model = "llama_tied"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Switches, Layout,
    ::testing::Values(
        Case{"shard16_micro1", {.ranks = 16, .micro_batch = 1, .steps = 3}},
        Case{"shard2_full",
             {.ranks = 2, .micro_batch = 2, .steps = 3, .accumulate = Accumulate::full}},
        Case{"shard2_never",
             {.ranks = 2, .micro_batch = 2, .steps = 3, .reshard = ReshardAfterForward::never}},
        Case{"shard2_never_full_tied",
             {.ranks = 2,
              .micro_batch = 2,
              .steps = 3,
              .model = "llama_tied",
              .reshard = ReshardAfterForward::never,
              .accumulate = Accumulate::full}},
        Case{"shard2_recompute",
             {.ranks = 2, .micro_batch = 4, .steps = 3, .recompute = Recompute::full}},
        Case{"recompute_every_second",
             {.ranks = 1,
              .micro_batch = 4,
              .steps = 3,
              .recompute = Recompute::full,
              .recompute_every = 2}},
        Case{"shard4_recompute_tied_full",
             {.ranks = 4,
              .micro_batch = 2,
              .steps = 3,
              .model = "llama_tied",
              .recompute = Recompute::full,
              .accumulate = Accumulate::full}},
        Case{"replicate2_shard2_full_recompute",
             {.ranks = 4,
              .sizes = {.dp_replicate = 2},
              .micro_batch = 1,
              .steps = 3,
              .recompute = Recompute::full,
              .accumulate = Accumulate::full}}),
    [](const auto& info) { return info.param.name; });

TEST(LayoutControls, a_dropped_micro_batch_of_sixteen_is_noticed) {
  LayoutRun run{.ranks = 4, .micro_batch = 1, .steps = 1};
  run.before_step = [](auto, int rank, std::vector<Batch>& batches) {
    if (rank == 2) batches[1].labels.fill_(-100);
  };
  EXPECT_NE(compare_gradients(one_rank("llama", 50), run_threads(run)), "");
}

TEST(LayoutControls, a_factor_of_one_in_a_thousand_on_one_segment_is_noticed) {
  LayoutResult changed = one_rank("llama", 50);
  for (float& g : changed.gradients.at("blocks.1.attention.k_proj.weight")) g *= 1.001f;
  EXPECT_NE(compare_gradients(one_rank("llama", 50), changed), "");
}

TEST(Bf16, losses_stay_near_those_of_fp32) {
  const LayoutResult bf16 =
      run_threads({.ranks = 2, .micro_batch = 2, .steps = 10, .compute = at::kBFloat16});
  const LayoutResult fp32 = run_threads({.steps = 10});
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(bf16.losses[i] / fp32.losses[i], 1.0, 5e-3) << "step " << i + 1;
}

}  // namespace
}  // namespace coeus::testing
