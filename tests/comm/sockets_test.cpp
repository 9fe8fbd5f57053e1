#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/error.h"
#include "comm/connect.h"
#include "core/torch.h"
#include "tests/comm/check.h"
#include "tests/comm/processes.h"

namespace coeus::comm::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
const Timeouts kPatient{.startup = 60s, .operation = 60s};

std::string failure_of(int size, const std::function<void(const World&)>& body) {
  try {
    run_processes(size, body);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// A rank may still be starting when another one has already died: both are inside the check.
TEST(Sockets, a_killed_rank_is_named_at_once) {
  const std::string text = failure_of(4, [](const World& world) {
    const std::string error = comm_error_of([&] {
      const Connection c = connect(world, CommBackend::sockets, -1, kPatient);
      if (world.rank == 2) raise(SIGKILL);
      c.device->barrier({.label = "step 5"});
    });
    check_contains(error, "lost rank 2");
  });
  EXPECT_EQ(text, "[rank 2] signal 9\n");
}

TEST(Sockets, a_rank_killed_within_a_large_reduction_ends_the_others) {
  const std::string text = failure_of(3, [](const World& world) {
    std::jthread killer;
    const std::string error = comm_error_of([&] {
      const Connection c = connect(world, CommBackend::sockets, -1, kPatient);
      if (world.rank == 1) {
        killer = std::jthread([] {
          std::this_thread::sleep_for(100ms);
          raise(SIGKILL);
        });
      }
      const Tensor t = at::ones({1 << 20});
      for (;;) c.device->all_reduce(t, ReduceOp::max).wait();
    });
    check_contains(error, "rank 1");
  });
  EXPECT_EQ(text, "[rank 1] signal 9\n");
}

TEST(Sockets, a_rank_that_does_not_come_at_start_is_named) {
  const std::string text = failure_of(3, [](const World& world) {
    if (world.rank == 2) {
      std::this_thread::sleep_for(1500ms);
      return;
    }
    const Timeouts hasty{.startup = 500ms, .operation = 60s};
    const std::string error =
        comm_error_of([&] { (void)connect(world, CommBackend::sockets, -1, hasty); });
    check_contains(error, world.rank == 0 ? "rank 2 did not come" : "rank ");
  });
  EXPECT_EQ(text, "nothing was thrown");
}

TEST(Sockets, a_rank_that_ended_well_is_named_by_who_waits_for_it) {
  const std::string text = failure_of(3, [](const World& world) {
    if (world.rank == 1) {
      (void)connect(world, CommBackend::sockets, -1, kPatient);
      return;
    }
    const std::string error = comm_error_of([&] {
      const Connection c = connect(world, CommBackend::sockets, -1, kPatient);
      c.device->barrier();
    });
    check_contains(error, "rank 1");
  });
  EXPECT_EQ(text, "nothing was thrown");
}

TEST(Sockets, groups_of_one_world_do_not_mix_their_messages) {
  const std::string text = failure_of(4, [](const World& world) {
    const Connection c = connect(world, CommBackend::sockets, -1, kPatient);
    Groups groups(Mesh(4, {.dp_shard = 2, .tp = 2}), *c.device);
    Communicator& dp = groups.open("dp_shard");
    Communicator& tp = groups.open("tp");
    for (int i = 0; i < 50; ++i) {
      const Tensor a = at::full({3000}, world.rank), b = at::full({10}, world.rank);
      Work sent = tp.send(a, 1 - tp.rank());
      const Tensor received = at::zeros_like(a);
      dp.all_reduce(b, ReduceOp::sum).wait();
      tp.recv(received, 1 - tp.rank()).wait();
      sent.wait();
      CHECK_THAT(at::equal(received, at::full_like(a, world.rank ^ 1)));
      CHECK_THAT(at::equal(b, at::full_like(b, world.rank + (world.rank ^ 2))));
    }
  });
  EXPECT_EQ(text, "nothing was thrown");
}

TEST(Sockets, rearm_is_refused) {
  const std::string text = failure_of(2, [](const World& world) {
    const Connection c = connect(world, CommBackend::sockets, -1, kPatient);
    c.device->abort("failed step");
    check_contains(comm_error_of([&] { c.device->rearm(); }), "cannot be rearmed");
  });
  EXPECT_EQ(text, "nothing was thrown");
}

TEST(Connect, one_rank_alone_needs_no_network) {
  const Connection c = connect(World{}, CommBackend::automatic, -1, kPatient);
  const Tensor t = at::ones({3});
  c.device->all_reduce(t, ReduceOp::sum).wait();
  c.host->barrier();
  EXPECT_EQ(c.device->size(), 1);
  EXPECT_TRUE(at::equal(t, at::ones({3})));
}

TEST(Connect, nccl_without_a_gpu_is_a_configuration_error) {
  EXPECT_THROW((void)connect(World{}, CommBackend::nccl, -1, kPatient), ConfigError);
}

}  // namespace
}  // namespace coeus::comm::testing
