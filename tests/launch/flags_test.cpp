#include "launch/flags.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/launch/fake_environment.h"

namespace coeus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;
LaunchFlags parse(const Words& words, const Variables& variables = {}) {
  return parse_launch_flags(words, fake(variables));
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchFlags, TakeBothSpellingsAndBothFormsOfValues) {
  const auto flags =
      parse({"--nnodes=2", "--nproc_per_node", "4", "--node-rank", "1", "--master_addr=h",
             "--master-port", "5", "--log_dir", "d", "train.py", "--nnodes", "7"});
  EXPECT_EQ(flags.num_nodes, 2);
  EXPECT_EQ(flags.ranks_per_node, "4");
  EXPECT_EQ(flags.node_rank, 1);
  EXPECT_EQ(flags.master_address, "h");
  EXPECT_EQ(flags.master_port, 5);
  EXPECT_EQ(flags.log_directory, "d");
  EXPECT_THAT(flags.words, ElementsAre("train.py", "--nnodes", "7"));
}

TEST(LaunchFlags, ReadPetVariablesBelowTheCommandLine) {
  const auto flags = parse({"--nnodes", "3", "x"}, {{"PET_NNODES", "2"},
                                                    {"PET_NPROC_PER_NODE", "8"},
                                                    {"PET_STANDALONE", "0"},
                                                    {"PET_NO_PYTHON", "1"}});
  EXPECT_EQ(flags.num_nodes, 3);
  EXPECT_EQ(flags.ranks_per_node, "8");
  EXPECT_FALSE(flags.standalone);
  EXPECT_TRUE(flags.no_python);
}

TEST(LaunchFlags, NameTheFlagThatIsRefused) {
  EXPECT_THAT(error_of([] {
                parse({"--monitor-interval=5", "x"});
              }),
              HasSubstr("--monitor-interval"));
  EXPECT_THAT(error_of([] { parse({"--tee", "3", "x"}); }), HasSubstr("--tee"));
  EXPECT_THAT(error_of([] { parse({"x"}, {{"PET_ROLE", "a"}}); }), HasSubstr("PET_ROLE"));
  EXPECT_THAT(error_of([] { parse({"--max-restarts", "3"}); }), HasSubstr("--max-restarts"));
  EXPECT_THAT(error_of([] { parse({"--nnodes", "1:4"}); }), HasSubstr("1:4"));
  EXPECT_THAT(error_of([] { parse({"--rdzv-backend=c10d"}); }), HasSubstr("c10d"));
  EXPECT_THAT(error_of([] { parse({"--frobnicate"}); }), HasSubstr("--frobnicate"));
  EXPECT_THAT(error_of([] { parse({"--nproc-per-node", "zero"}); }), HasSubstr("zero"));
  EXPECT_THAT(error_of([] { parse({"--nproc-per-node"}); }), HasSubstr("value is missing"));
  EXPECT_THAT(error_of([] { parse({"--standalone=1"}); }), HasSubstr("takes no value"));
}

TEST(LaunchFlags, AcceptTorchrunsDefaultsSpelledOut) {
  const auto flags = parse({"--nnodes=1:1", "--max_restarts=0", "--rdzv_backend", "static",
                            "--rdzv_endpoint=head:1234", "--rdzv_id=j7", "-m", "pkg.mod"});
  EXPECT_EQ(flags.num_nodes, 1);
  EXPECT_EQ(flags.master_address, "head");
  EXPECT_EQ(flags.master_port, 1234);
  EXPECT_EQ(flags.run_id, "j7");
  EXPECT_TRUE(flags.module);
}

TEST(CountRanks, FollowsTheFlagElseTheFallback) {
  const auto none = fake({{"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_EQ(count_ranks({}, 3, none), 3);
  EXPECT_EQ(count_ranks({.ranks_per_node = "5"}, 3, none), 5);
  EXPECT_EQ(count_ranks({.ranks_per_node = "cpu"}, 3, none), count_cores());
  EXPECT_EQ(count_ranks({.ranks_per_node = "auto"}, 3, none), count_cores());
  EXPECT_THROW(count_ranks({.ranks_per_node = "gpu"}, 3, none), UsageError);
}

TEST(ResolveNodes, IsThisMachineOnAFreePortByDefault) {
  const auto options = resolve_nodes({}, fake({}));
  EXPECT_EQ(options.num_nodes, 1);
  EXPECT_EQ(options.master_port, 0);
  EXPECT_EQ(options.master_address, "127.0.0.1");
}

TEST(ResolveNodes, TakesSeveralNodesFromFlags) {
  const auto options =
      resolve_nodes({.num_nodes = 2, .node_rank = 1, .master_address = "head"}, fake({}));
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.master_address, "head");
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_THROW(resolve_nodes({.num_nodes = 2, .node_rank = 1}, fake({})), UsageError);
  EXPECT_THROW(resolve_nodes({.num_nodes = 2, .node_rank = 2, .master_address = "h"}, fake({})),
               UsageError);
}

const Variables kStep = {{"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_NNODES", "2"},
                         {"SLURM_TASKS_PER_NODE", "1(x2)"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"}};

TEST(ResolveNodes, TakesNodesFromAnSrunStepWithOneTaskANode) {
  const auto options = resolve_nodes({}, fake(kStep));
  EXPECT_EQ(options.num_nodes, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.master_address, "n1");
  EXPECT_EQ(options.master_port, 20070);
  EXPECT_EQ(resolve_nodes({.master_port = 99}, fake(kStep)).master_port, 99);
}

TEST(ResolveNodes, RefusesFlagsAgainstTheStepWithBothValues) {
  const auto error = [](LaunchFlags flags, Variables step) {
    return error_of([&] { resolve_nodes(flags, fake(step)); });
  };
  EXPECT_THAT(error({.num_nodes = 3}, kStep), HasSubstr("--nnodes 3 against an srun step of 2"));
  EXPECT_THAT(error({.node_rank = 0}, kStep), HasSubstr("--node-rank 0 against SLURM_NODEID=1"));
  EXPECT_THAT(error({.standalone = true}, kStep), HasSubstr("--standalone"));
  EXPECT_THAT(
      error({}, kStep + Variables{{"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}}),
      HasSubstr("4 tasks on 2 nodes"));
}

}  // namespace
}  // namespace coeus::launch
