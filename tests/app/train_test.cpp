#include "app/build_info.h"
#include "tests/app/run_binary.h"

namespace coeus::app {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A copy of coeus beside a coeus-train that only tells how it was called.
class Train : public BinaryTest {
 protected:
  void SetUp() override {
    BinaryTest::SetUp();
    files::write_text(folder_ / "coeus-train", R"(#!/usr/bin/env bash
echo "rank ${RANK:--} of ${WORLD_SIZE:--}: $*"
)");
    files::write_text(folder_ / "tiny.yaml", R"(run: {directory: run}
model: {name: llama, dim: 32, num_layers: 2, num_heads: 2, num_kv_heads: 2, ffn_dim: 64}
tokenizer: {path: byte}
data: {sources: [text.txt], sequence_length: 64}
training: {steps: 4, global_batch_size: 4, micro_batch_size: 1}
)");
    files::write_text(folder_ / "text.txt", std::string(4000, 'x'));
    ASSERT_EQ(run("cp " COEUS_BINARY " coeus && chmod +x coeus-train").code, 0);
  }
  const std::string expect_ = "--expect-commit " + build_info().git_commit;
};

TEST_F(Train, StartsOneRankWithoutGpus) {
  const Outcome one = run("CUDA_VISIBLE_DEVICES= ./coeus train tiny.yaml training.steps=2");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "rank 0 of 1: " + expect_ + " train tiny.yaml training.steps=2\n");
  EXPECT_EQ(files::read_text(folder_ / "run/logs/attempt-0/rank-0.log"), one.out);
}

TEST_F(Train, StartsARankForEachGpu) {
  const Outcome gpus =
      run("LD_LIBRARY_PATH=" FAKE_CUDA_DIR " ./coeus train tiny.yaml training.global_batch_size=6");
  EXPECT_EQ(gpus.code, 0) << gpus.err;
  EXPECT_THAT(gpus.out, StartsWith("rank 0 of 3: "));
  EXPECT_THAT(files::read_text(folder_ / "run/logs/attempt-0/rank-2.log"),
              StartsWith("rank 2 of 3"));
}

TEST_F(Train, StartsAsManyRanksAsAskedFor) {
  EXPECT_THAT(run("./coeus train --nproc 2 tiny.yaml").out, StartsWith("rank 0 of 2: "));
  EXPECT_THAT(run("./coeus launch --nproc-per-node=2 tiny.yaml --training.steps=2").out,
              StartsWith("rank 0 of 2: " + expect_ + " train tiny.yaml --training.steps=2"));
}

TEST_F(Train, NeedsNoRankToFindAFaultInTheConfiguration) {
  const Outcome fault = run("./coeus train tiny.yaml training.stepz=2 --nproc 2");
  EXPECT_EQ(fault.code, 2);
  EXPECT_EQ(fault.out, "");
  EXPECT_THAT(fault.err, HasSubstr("coeus: error: "));
  EXPECT_THAT(fault.err, HasSubstr("stepz"));
  EXPECT_FALSE(files::exists(folder_ / "run"));
  EXPECT_EQ(run("./coeus train tiny.yaml --nproc 3").code, 2) << "4 sequences on 3 ranks";
  EXPECT_EQ(run("./coeus train absent.yaml").code, 2);
  EXPECT_EQ(run("./coeus train").code, 2);
  EXPECT_EQ(run("./coeus train tiny.yaml --frobnicate").code, 2);
  EXPECT_EQ(run("./coeus train tiny.yaml --nnodes 2").code, 2);
}

TEST_F(Train, BecomesOneProcessWhenRanksAreThreads) {
  const Outcome threads = run("./coeus train tiny.yaml comm.ranks=threads --nproc 4");
  EXPECT_EQ(threads.out,
            "rank - of -: " + expect_ + " train tiny.yaml comm.ranks=threads --nproc 4\n")
      << threads.err;
}

TEST_F(Train, JoinsTheWorldAroundIt) {
  const Outcome torchrun =
      run("export RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5\n"
          "./coeus train tiny.yaml");
  EXPECT_EQ(torchrun.out, "rank 1 of 2: " + expect_ + " train tiny.yaml\n") << torchrun.err;
  const std::string srun =
      "export SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
      "SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_TASKS_PER_NODE='1(x2)' SLURM_STEP_NODELIST='n[0-1]'\n";
  EXPECT_EQ(run(srun + "CUDA_VISIBLE_DEVICES= ./coeus train tiny.yaml").out,
            "rank - of -: " + expect_ + " train tiny.yaml\n");
  const Outcome idle_gpus = run(srun + "LD_LIBRARY_PATH=" FAKE_CUDA_DIR " ./coeus train tiny.yaml");
  EXPECT_EQ(idle_gpus.code, 2);
  EXPECT_THAT(idle_gpus.err, HasSubstr("1 task on this node, and 3 GPUs are visible"));
  EXPECT_EQ(
      run(srun + "LD_LIBRARY_PATH=" FAKE_CUDA_DIR " ./coeus train tiny.yaml --nproc-per-node 1")
          .code,
      0);
  const Outcome against = run(srun + "./coeus train tiny.yaml --nproc 2");
  EXPECT_EQ(against.code, 2);
  EXPECT_THAT(against.err, HasSubstr("--nproc-per-node 2 against 1 rank that srun started"));
}

TEST_F(Train, RefusesAnIncompleteWorld) {
  const Outcome incomplete = run("RANK=1 WORLD_SIZE=2 ./coeus train tiny.yaml");
  EXPECT_EQ(incomplete.code, 2);
  EXPECT_THAT(incomplete.err, HasSubstr("RANK=1 WORLD_SIZE=2 LOCAL_RANK (not set)"));
  EXPECT_THAT(run("CUDA_VISIBLE_DEVICES= RANK=1 ./coeus train tiny.yaml").out,
              StartsWith("rank 0 of 1"))
      << "a stale RANK";
}

TEST_F(Train, LooksForCoeusTrainInLibexecAndSaysWhereItLooked) {
  ASSERT_EQ(run("mkdir -p bin libexec/coeus && mv coeus bin && mv coeus-train libexec/coeus").code,
            0);
  EXPECT_EQ(run("CUDA_VISIBLE_DEVICES= bin/coeus train tiny.yaml").code, 0);
  ASSERT_EQ(run("rm -r libexec && ln -s bin/coeus coeus").code, 0);
  const Outcome missing = run("./coeus train tiny.yaml");
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/bin/coeus-train and "));
  EXPECT_THAT(missing.err, HasSubstr("/libexec/coeus/coeus-train"));
}

}  // namespace
}  // namespace coeus::app
