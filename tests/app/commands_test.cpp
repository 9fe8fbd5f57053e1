#include "app/build_info.h"
#include "base/json.h"
#include "tests/app/run_binary.h"

namespace coeus::app {
namespace {

using testing::HasSubstr;
using testing::Not;

class Commands : public BinaryTest {
 protected:
  const std::string coeus_ = COEUS_BINARY;
};

TEST_F(Commands, HelpListsEachCommandThatExistsAndSucceeds) {
  const Outcome help = run(coeus_ + " --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("\n  train "));
  EXPECT_THAT(help.out, HasSubstr("\n  launch "));
  for (const char* absent : {"bench", "plan", "slurm", "report", "drill"})
    EXPECT_THAT(help.out, Not(HasSubstr(fmt::format("\n  {} ", absent))));
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(run("for c in $(" + coeus_ + " --help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p'); do " +
                coeus_ + " $c --help | grep -q '^usage: ' || echo $c; done")
                .out,
            "");
}

TEST_F(Commands, NothingToDoIsAUsageErrorWithTheHelp) {
  const Outcome run_alone = run(coeus_);
  EXPECT_EQ(run_alone.code, 2);
  EXPECT_THAT(run_alone.err, HasSubstr("usage: coeus COMMAND"));
}

TEST_F(Commands, AnUnknownCommandExits2AndNamesTheNearest) {
  const Outcome typo = run(coeus_ + " trian x");
  EXPECT_EQ(typo.code, 2);
  EXPECT_EQ(typo.out, "");
  EXPECT_THAT(typo.err, HasSubstr("coeus: error: unknown command \"trian\"; did you mean train"));
  EXPECT_EQ(run(coeus_ + " plan x").code, 2) << "a command that is not built yet";
}

TEST_F(Commands, ExplainTellsDrawsAndWritesJson) {
  const Outcome told = run(coeus_ + " explain llama/debug --gpus=2 --svg picture.svg");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("dp_shard 2 = 2 ranks"));
  EXPECT_THAT(told.out, HasSubstr("embed to head"));
  EXPECT_THAT(files::read_text(folder_ / "picture.svg"), HasSubstr("1f1b: 1 ranks, 1 stages"));
  const Outcome json = run(coeus_ + " explain llama/debug --json");
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(parse_json(json.out, "explain")["pipeline_ranks"].size(), 1u);
  EXPECT_EQ(run(coeus_ + " explain llama/debug --gpus none").code, 2);
  EXPECT_EQ(run(coeus_ + " explain llama/debug --gpus 3").code, 2) << "3 does not divide the batch";
  EXPECT_EQ(run(coeus_ + " explain").code, 2);
}

TEST_F(Commands, VersionPrintsTheCommitAndWhatItWasBuiltWith) {
  const Outcome version = run(coeus_ + " --version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("git       " + build_info().git_commit));
  for (const char* part : {"libtorch", "CUDA", "NCCL", "MPI"})
    EXPECT_THAT(version.out, HasSubstr(part));
}

TEST_F(Commands, TheLightBinaryLinksNoLibtorch) {
  const Outcome ldd = run("ldd " + coeus_);
  ASSERT_EQ(ldd.code, 0);
  EXPECT_THAT(ldd.out, Not(HasSubstr("torch")));
  EXPECT_THAT(ldd.out, Not(HasSubstr("libc10")));
  EXPECT_THAT(ldd.out, Not(HasSubstr("cuda")));
}

TEST_F(Commands, CoeusTrainRefusesAnotherCommit) {
  const std::string heavy = COEUS_TRAIN_BINARY;
  if (heavy.empty()) GTEST_SKIP() << "built without libtorch";
  const Outcome other = run(heavy + " --expect-commit 0123456789ab train x");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("coeus was built from commit 0123456789ab and coeus-train from " +
                        build_info().git_commit));
  EXPECT_EQ(run(heavy + " --expect-commit " + build_info().git_commit + " --version").code, 0);
}

TEST_F(Commands, LaunchRunsAProgramAsTorchrunDoes) {
  const Outcome ranks =
      run(coeus_ + " launch --nproc_per_node=2 bash -c 'echo rank $RANK of $WORLD_SIZE: $0' word");
  EXPECT_EQ(ranks.code, 0) << ranks.err;
  EXPECT_THAT(ranks.out, HasSubstr("rank 0 of 2: word"));
  EXPECT_THAT(ranks.out, HasSubstr("rank 1 of 2: word"));
  EXPECT_THAT(run("PET_NPROC_PER_NODE=3 " + coeus_ + " launch bash -c 'echo $WORLD_SIZE'").out,
              HasSubstr("3"));
}

TEST_F(Commands, LaunchRunsPyFilesAndModulesUnderPython) {
  files::write_text(folder_ / "hello.py", "import sys; print('hello', sys.argv[1])\n");
  EXPECT_EQ(run(coeus_ + " launch hello.py --nnodes").out, "hello --nnodes\n");
  EXPECT_EQ(run(coeus_ + " launch -m hello there").out, "hello there\n");
  const Outcome as_it_is = run(coeus_ + " launch --no-python ./hello.py x");
  EXPECT_EQ(as_it_is.code, 2) << "it has no x bit";
  EXPECT_THAT(as_it_is.err, HasSubstr("cannot run ./hello.py"));
}

TEST_F(Commands, LaunchCountsGpusThroughTheDriver) {
  const Outcome gpus = run("LD_LIBRARY_PATH=" FAKE_CUDA_DIR " " + coeus_ +
                           " launch --nproc-per-node gpu bash -c 'echo $LOCAL_WORLD_SIZE'");
  EXPECT_EQ(gpus.out, "3\n3\n3\n") << gpus.err;
}

TEST_F(Commands, LaunchReturnsTheProgramsCode) {
  EXPECT_EQ(run(coeus_ + " launch bash -c 'exit 7'").code, 7);
  EXPECT_EQ(run(coeus_ + " launch --nproc-per-node 2 bash -c 'exit 75'").code, 75);
  EXPECT_EQ(run(coeus_ + " launch bash -c 'kill -9 $$'").code, 137);
}

TEST_F(Commands, LaunchNamesTheFlagItDoesNotHave) {
  const Outcome run_role = run(coeus_ + " launch --role=x bash -c true");
  EXPECT_EQ(run_role.code, 2);
  EXPECT_THAT(run_role.err, HasSubstr("--role"));
}

}  // namespace
}  // namespace coeus::app
