#include "launch/environment.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "launch/environments/environments.h"
#include "tests/launch/fake_environment.h"

namespace coeus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Variables kTorchrun = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "1"},     {"GROUP_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "1234.1"}};
// As srun 22.05 --mpi=none sets them, three nodes with 2, 2 and 1 tasks.
const Variables kSrun = {{"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_NNODES", "3"},
                         {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                         {"SLURM_STEP_NODELIST", "n[007-008],m1"},
                         {"SLURM_JOB_NODELIST", "n[007-008],m1"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};

std::string error_of(const Variables& variables) {
  try {
    detect_world(fake(variables));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(DetectWorld, IsAloneWithoutVariables) {
  const World world = detect_world(fake({}));
  EXPECT_EQ(world.source, "alone");
  EXPECT_EQ(world.size, 1);
}

TEST(DetectWorld, ReadsTheFullTorchrunSet) {
  const World world = detect_world(fake(kTorchrun));
  EXPECT_EQ(world.source, "torchrun");
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 4);
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.num_nodes, 2);
  EXPECT_EQ(world.master_address, "head");
  EXPECT_EQ(world.master_port, 29500);
  EXPECT_FALSE(world.store_is_served);
}

TEST(DetectWorld, SaysThatTorchrunsAgentServesTheStore) {
  EXPECT_TRUE(detect_world(fake(kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))
                  .store_is_served);
  EXPECT_FALSE(detect_world(fake(kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))
                   .store_is_served);
}

TEST(DetectWorld, IgnoresAStaleRankAndPresetMasterVariables) {
  EXPECT_EQ(detect_world(fake({{"RANK", "3"}})).source, "alone");
  EXPECT_EQ(detect_world(fake({{"RANK", "3"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "1"}})).source,
            "alone");
  EXPECT_EQ(detect_world(fake(kSrun + Variables{{"RANK", "9"}})).source, "srun");
}

TEST(DetectWorld, RefusesAnIncompleteTorchrunSetWithWhatIsThere) {
  const auto error = error_of({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "head"}});
  EXPECT_THAT(error, HasSubstr("RANK=1 WORLD_SIZE=4"));
  EXPECT_THAT(error, HasSubstr("LOCAL_RANK (not set)"));
  EXPECT_THAT(error, HasSubstr("MASTER_ADDR=head"));
}

TEST(DetectWorld, PrefersACompleteSourceToAnIncompleteOne) {
  EXPECT_EQ(detect_world(fake(kOpenMpi + Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}})).source,
            "openmpi");
}

TEST(DetectWorld, RefusesImpossibleSetsWithBothValues) {
  EXPECT_THAT(error_of(kTorchrun + Variables{{"RANK", "8"}}), HasSubstr("RANK=8 WORLD_SIZE=8"));
  EXPECT_THAT(error_of(kTorchrun + Variables{{"LOCAL_RANK", "4"}}),
              HasSubstr("LOCAL_RANK=4 LOCAL_WORLD_SIZE=4"));
  EXPECT_THAT(error_of(kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "9"}}),
              HasSubstr("LOCAL_WORLD_SIZE=9 WORLD_SIZE=8"));
  EXPECT_THAT(error_of(kTorchrun + Variables{{"RANK", "two"}}), HasSubstr("RANK=two"));
  EXPECT_THAT(error_of(kTorchrun + Variables{{"MASTER_PORT", "70000"}}),
              HasSubstr("MASTER_PORT=70000"));
  EXPECT_THAT(error_of(kOpenMpi + Variables{{"OMPI_COMM_WORLD_RANK", "-1"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_THAT(error_of(kSrun + Variables{{"SLURM_NTASKS", "6"}}),
              HasSubstr("SLURM_TASKS_PER_NODE=2(x2),1"));
  EXPECT_THAT(error_of(kSrun + Variables{{"SLURM_LOCALID", "2"}}), HasSubstr("SLURM_LOCALID=2"));
}

TEST(DetectWorld, TakesTheFirstCompleteSourceInOrder) {
  EXPECT_EQ(detect_world(fake(kTorchrun + kOpenMpi + kSrun)).source, "torchrun");
  EXPECT_EQ(detect_world(fake(kOpenMpi + kSrun)).source, "openmpi");
  EXPECT_EQ(detect_world(fake(kSrun + Variables{{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}})).source,
            "srun");
}

TEST(DetectWorld, ReadsOpenMpi) {
  const World world = detect_world(fake(kOpenMpi));
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.num_nodes, 1);
  EXPECT_EQ(world.master_address, "127.0.0.1");
  EXPECT_GE(world.master_port, 20000);
}

TEST(DetectWorld, NamesNoMasterForOpenMpiOnSeveralNodes) {
  const auto two_nodes = kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
  EXPECT_EQ(detect_world(fake(two_nodes)).master_address, "");
  EXPECT_EQ(detect_world(fake(two_nodes)).node_rank, 1);
  EXPECT_EQ(detect_world(fake(two_nodes + Variables{{"MASTER_ADDR", "a"}})).master_address, "a");
}

TEST(DetectWorld, ReadsAnSrunStep) {
  const World world = detect_world(fake(kSrun));
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 5);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.num_nodes, 3);
}

TEST(DetectWorld, FindsSrunsMasterByBatchAddressElseByFirstHost) {
  EXPECT_EQ(detect_world(fake(kSrun)).master_address, "n007");
  const auto batch = kSrun + Variables{{"ENVIRONMENT", "BATCH"}};
  EXPECT_EQ(detect_world(fake(batch)).master_address, "10.0.0.9");
  EXPECT_EQ(
      detect_world(fake(batch + Variables{{"SLURM_STEP_NODELIST", "n008,m[1-2]"}})).master_address,
      "n008");
  EXPECT_EQ(detect_world(fake(batch + Variables{{"MASTER_ADDR", "h"}})).master_address, "h");
}

TEST(DetectWorld, GivesStepsOfAJobAndNeighbouringJobsDifferentPorts) {
  const auto port = [](const char* job, const char* step) {
    return detect_world(fake(kSrun + Variables{{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}))
        .master_port;
  };
  EXPECT_NE(port("10", "0"), port("10", "1"));
  EXPECT_NE(port("10", "1"), port("11", "0"));
  EXPECT_EQ(port("10", "1"), port("10", "1"));
  EXPECT_LT(port("99999999", "9"), 32768);
}

TEST(DetectWorld, TakesABatchScriptOrInteractiveShellForNoStep) {
  auto batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(detect_world(fake(batch)).source, "alone");
  EXPECT_EQ(detect_world(fake(kSrun + Variables{{"SLURM_STEP_ID", "4294967290"}})).source, "alone");
}

TEST(DetectWorld, ReadsPmiWithAMaster) {
  const Variables pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  EXPECT_THAT(error_of(pmi), HasSubstr("MASTER_PORT (not set)"));
  const World world = detect_world(fake(pmi + Variables{{"MPI_LOCALRANKID", "1"},
                                                        {"MPI_LOCALNRANKS", "2"},
                                                        {"MASTER_ADDR", "h"},
                                                        {"MASTER_PORT", "7"}}));
  EXPECT_EQ(world.source, "pmi");
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.master_port, 7);
}

TEST(DetectWorld, TakesTheLaunchersSocketOnlyIfItIsBoundToTheMasterPort) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const auto rank0 =
      kTorchrun + Variables{{"RANK", "0"},
                            {"LOCAL_RANK", "0"},
                            {"GROUP_RANK", "0"},
                            {"COEUS_LISTEN_FD", std::to_string(fd)},
                            {"MASTER_PORT", std::to_string(ntohs(address.sin_port))}};
  EXPECT_EQ(detect_world(fake(rank0)).listen_fd, fd);
  int listening = 0;
  length = sizeof listening;
  getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length);
  EXPECT_EQ(listening, 1);
  EXPECT_EQ(detect_world(fake(rank0 + Variables{{"MASTER_PORT", "1"}})).listen_fd, -1);
  EXPECT_EQ(detect_world(fake(rank0 + Variables{{"COEUS_LISTEN_FD", "0"}})).listen_fd, -1);
  close(fd);
}

TEST(ExpandNodelist, ReadsRangesPaddingListsAndSeveralBrackets) {
  EXPECT_THAT(expand_nodelist("n[001-003,7],m1"), ElementsAre("n001", "n002", "n003", "n7", "m1"));
  EXPECT_THAT(expand_nodelist("r[0-1]n[8-9]x"), ElementsAre("r0n8x", "r0n9x", "r1n8x", "r1n9x"));
  EXPECT_THAT(expand_nodelist("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_nodelist(""), IsEmpty());
}

TEST(ExpandNodelist, RefusesWhatItCannotRead) {
  for (const char* bad : {"n[1-", "n]1", "n[a]", "n[3-1]", "n[1-]", "n[]", "a,,b", "n[[1]]",
                          "n[1-99999999999]", "n[0-9999]x[0-9999]"})
    EXPECT_THROW(expand_nodelist(bad), UsageError) << bad;
}

TEST(ExpandTasksPerNode, ReadsRepeats) {
  EXPECT_THAT(expand_tasks_per_node("4,2,1(x2)"), ElementsAre(4, 2, 1, 1));
  for (const char* bad : {"x", "4(x0)", "4(x", "0"})
    EXPECT_THROW(expand_tasks_per_node(bad), UsageError) << bad;
}

TEST(CountGpus, IsZeroWhereNoneIsVisible) {
  EXPECT_EQ(count_gpus(fake({{"CUDA_VISIBLE_DEVICES", ""}})), 0);
  EXPECT_EQ(count_gpus(fake({{"CUDA_VISIBLE_DEVICES", "-1"}})), 0);
}

}  // namespace
}  // namespace coeus::launch
