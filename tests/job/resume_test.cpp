#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/job/support.h"

namespace coeus {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ResumeDifferences change(const std::vector<std::string>& overrides) {
  return compare_for_resume(parse_job(kLegal, "x.yaml").config,
                            parse_job(kLegal, "x.yaml", overrides).config);
}

TEST(Resume, WhatDecidesTheNumbersMustBeEqual) {
  for (const char* override :
       {"model.num_layers=2", "model.rope_scaling.factor=2", "data.sources=b.txt",
        "data.packing=documents", "data.sequence_length=32", "data.eos=false", "data.text_key=t",
        "evaluation.holdout=0.2", "run.seed=1"}) {
    const ResumeDifferences differences = change({override});
    EXPECT_EQ(differences.forbidden.size(), 1u) << override;
    EXPECT_THAT(differences.allowed, IsEmpty()) << override;
  }
  EXPECT_THAT(change({"run.seed=1"}).forbidden, ElementsAre("run.seed: was 42, is 1"));
}

TEST(Resume, LayoutLengthRateAndCadenceMayChangeAndAreListed) {
  for (const char* override :
       {"parallel.dp_replicate=2", "execution.recompute=full", "precision.compute=bf16",
        "training.micro_batch_size=1", "training.global_batch_size=32", "training.steps=20",
        "optimizer.lr=1e-4", "lr_schedule.name=cosine", "checkpoint.every=5", "metrics.every=1",
        "guards.timeout=1m", "comm.ranks=threads", "tokenizer.path=elsewhere/tokenizer.json"}) {
    const ResumeDifferences differences = change({override});
    EXPECT_EQ(differences.allowed.size(), 1u) << override;
    EXPECT_THAT(differences.forbidden, IsEmpty()) << override;
  }
  EXPECT_THAT(
      change({"training.tokens=1M"}).allowed,
      ElementsAre("training.steps: was 10, is null", "training.tokens: was null, is 1000000"));
}

TEST(Resume, TheSameRunInAnotherPlaceIsNoDifference) {
  const ResumeDifferences differences =
      change({"run.directory=elsewhere", "run.cache=c", "run.resume=never"});
  EXPECT_TRUE(differences.forbidden.empty() && differences.allowed.empty());
}

}  // namespace
}  // namespace coeus
