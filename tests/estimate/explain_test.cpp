#include "estimate/explain.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace coeus::estimate {
namespace {

using testing::HasSubstr;

// llama/debug: 6 blocks, vocabulary 2048, dim 256.
JobConfig config(std::int64_t pp, const std::string& schedule = "1f1b", std::int64_t v = 1) {
  JobConfig c =
      load_job("llama/debug", {"training.global_batch_size=16", "training.micro_batch_size=1"})
          .config;
  c.parallel.pp = pp;
  c.parallel.pp_schedule = schedule;
  c.parallel.pp_stages_per_rank = v;
  return c;
}

TEST(Explain, EachStageAndParameterIsOnOneRank) {
  for (const auto& [schedule, v] : {std::pair{"1f1b", 1}, {"interleaved_1f1b", 2}, {"zbv", 2}}) {
    const auto e = explain(config(3, schedule, v), 3);
    ASSERT_EQ(e.pipeline_ranks.size(), 3u);
    std::int64_t parameters = 0;
    std::vector<StageRange> ranges(static_cast<std::size_t>(3 * v));
    for (const auto& rank : e.pipeline_ranks) {
      parameters += rank.num_parameters;
      ASSERT_EQ(static_cast<int>(rank.stages.size()), v);
      for (const auto& stage : rank.stages) {
        ranges[static_cast<std::size_t>(stage.stage)] = stage.layers;
      }
    }
    EXPECT_EQ(parameters, e.num_parameters) << schedule;
    for (std::size_t s = 1; s < ranges.size(); ++s) EXPECT_EQ(ranges[s].begin, ranges[s - 1].end);
    EXPECT_EQ(e.num_micro_batches, 16);
  }
}

TEST(Explain, ATiedWeightIsOnBothEnds) {
  JobConfig c = config(2);
  const std::int64_t table = 2048 * 256;
  const auto untied = explain(c, 2);
  c = load_job("llama/debug", {"model.tie_embeddings=true"}).config;
  c.parallel.pp = 2;
  const auto tied = explain(c, 2);
  EXPECT_EQ(tied.num_parameters, untied.num_parameters - table);
  EXPECT_EQ(tied.pipeline_ranks[0].num_parameters + tied.pipeline_ranks[1].num_parameters,
            tied.num_parameters + table);
}

TEST(Explain, MemoryUnderPipelineIsPersistentAndFull) {
  const auto e = explain(config(2), 4);  // and dp_shard 2
  EXPECT_EQ(e.layout, "pp 2 · dp_shard 2");
  for (const auto& rank : e.pipeline_ranks) {
    // bf16 weights and fp32 gradients of every parameter, moments of half of them.
    const double n = static_cast<double>(rank.num_parameters);
    EXPECT_NEAR(static_cast<double>(rank.memory.weights), 2 * n, 0.01 * n);
    EXPECT_NEAR(static_cast<double>(rank.memory.gradients), 4 * n, 0.01 * n);
    EXPECT_NEAR(static_cast<double>(rank.memory.moments), 4 * n, 0.01 * n);
  }
  JobConfig tp = config(2);
  tp.parallel.tp = 2;
  const auto divided = explain(tp, 4), whole = explain(config(2), 2);
  EXPECT_NEAR(static_cast<double>(divided.pipeline_ranks[0].memory.total()) /
                  static_cast<double>(whole.pipeline_ranks[0].memory.total()),
              0.5, 0.02);
}

TEST(Explain, TheScheduleIsSimulatedWithTheStagesFlops) {
  const auto gpipe = explain(config(2, "gpipe"), 2), one = explain(config(2), 2);
  EXPECT_EQ(gpipe.pipeline_ranks[0].peak_forward_to_weight, 16);
  EXPECT_EQ(one.pipeline_ranks[0].peak_forward_to_weight, 2);
  EXPECT_EQ(one.pipeline_ranks[1].peak_forward_to_weight, 1);
  double total = 0;
  for (const auto& rank : one.pipeline_ranks) {
    for (const auto& stage : rank.stages) total += stage.flops_per_token.total();
    EXPECT_GT(rank.bubble, 0);
    EXPECT_LT(rank.bubble, 0.3);
  }
  EXPECT_NEAR(total, config(1).model->spec().flops_per_token(config(1).data.sequence_length),
              1e-3 * total);
  JobConfig recomputed = config(2);
  recomputed.execution.recompute = Recompute::full;
  const auto r = explain(recomputed, 2);
  const auto& before = one.pipeline_ranks[0].stages[0].flops_per_token;
  const auto& after = r.pipeline_ranks[0].stages[0].flops_per_token;
  EXPECT_DOUBLE_EQ(after.backward, before.backward + before.forward);
}

TEST(Explain, FewerMicroBatchesThanStagesAreNoted) {
  JobConfig c = config(4);
  c.training.global_batch_size = 2;
  EXPECT_THAT(explain(c, 4).notes,
              testing::Contains(HasSubstr("2 micro-batches are fewer than 4")));
  EXPECT_TRUE(explain(config(4), 4).notes.empty());
}

std::string fault_of(const JobConfig& c, std::int64_t world) {
  try {
    explain(c, world);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Explain, WhatDoesNotFitIsAFault) {
  EXPECT_THAT(fault_of(config(9), 9), HasSubstr("9 pipeline stages"));
  EXPECT_THAT(fault_of(config(2, "zbv"), 2), HasSubstr("pp_stages_per_rank to 2"));
  EXPECT_THAT(fault_of(config(2), 6), HasSubstr("not a multiple"));
  EXPECT_THAT(fault_of(config(2), 3), HasSubstr("does not divide"));
}

}  // namespace
}  // namespace coeus::estimate
