#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "comm/connect.h"
#include "comm/operation.h"
#include "core/torch.h"
#include "tests/comm/check.h"

namespace coeus::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
const Timeouts kPatient{.startup = 60s, .operation = 60s};

std::string failure_of(int size, const Timeouts& timeouts, const RankBody& body) {
  try {
    run_threads(size, timeouts, body);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(RunThreads, gives_each_rank_its_world_and_both_communicators) {
  std::atomic<int> sum{0};
  run_threads(5, kPatient, [&](const World& world, Connection connection) {
    EXPECT_EQ(world.size, 5);
    EXPECT_EQ(world.rank, connection.device->rank());
    EXPECT_EQ(world.rank, connection.host->rank());
    EXPECT_EQ(world.local_rank, world.rank);
    sum += world.rank;
  });
  EXPECT_EQ(sum, 10);
}

TEST(RunThreads, rethrows_the_first_failure_and_ends_every_wait) {
  const std::string text = failure_of(4, kPatient, [](const World& world, Connection connection) {
    const auto pair = connection.device->split(world.rank / 2, "pair");
    if (world.rank == 2) throw DataError("shard 7 is truncated");
    if (world.rank == 3) pair->barrier();
    connection.host->barrier();
  });
  EXPECT_EQ(text, "shard 7 is truncated");
}

TEST(RunThreads, keeps_the_type_of_the_first_failure) {
  EXPECT_THROW(run_threads(3, kPatient,
                           [](const World& world, Connection connection) {
                             if (world.rank == 1) throw ConfigError("no such key");
                             connection.device->barrier();
                           }),
               ConfigError);
}

TEST(RunThreads, names_a_rank_that_left_while_others_wait_for_it) {
  const std::string text = failure_of(3, kPatient, [](const World& world, Connection connection) {
    if (world.rank != 1) connection.device->barrier({.label = "end of step"});
  });
  EXPECT_THAT(text, HasSubstr("rank 1 has left"));
  EXPECT_THAT(text, HasSubstr("end of step"));
}

TEST(RunThreads, names_both_sides_of_rows_that_do_not_fit) {
  const std::string text = failure_of(2, kPatient, [](const World& world, Connection connection) {
    const std::vector<std::int64_t> rows = {1, 1}, wrong = {0, 2};
    const Tensor t = at::ones({2, 3});
    connection.device->all_to_all(at::zeros_like(t), t, world.rank == 0 ? wrong : rows, rows)
        .wait();
  });
  EXPECT_THAT(text, HasSubstr("rank 0 sends 1 rows to rank 0, which expects 0"));
}

TEST(RunThreads, a_rank_missing_at_rearm_is_named) {
  const Timeouts hasty{.startup = 1s, .operation = 200ms};
  const std::string text = failure_of(3, hasty, [](const World& world, Connection connection) {
    connection.device->abort("failed step");
    if (world.rank == 2) std::this_thread::sleep_for(800ms);
    if (world.rank != 2) connection.device->rearm();
  });
  EXPECT_THAT(text, HasSubstr("rearm: no answer from rank 2 "));
}

// y = all_reduce(x); its gradient is all-reduced too, and blocks inside backward.
struct AllReduceNode : torch::autograd::Node {
  Communicator* communicator = nullptr;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    Tensor grad = grads[0].contiguous().clone();
    communicator->all_reduce(grad, ReduceOp::sum, {.label = "backward"}).wait();
    return {grad};
  }
};

Tensor all_reduce_with_grad(Communicator& communicator, const Tensor& x) {
  const auto node = std::make_shared<AllReduceNode>();
  node->communicator = &communicator;
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  Tensor y = x.detach().clone();
  communicator.all_reduce(y, ReduceOp::sum).wait();
  torch::autograd::set_history(y, node);
  return y;
}

TEST(RunThreads, a_wait_inside_backward_does_not_deadlock) {
  run_threads(16, kPatient, [](const World& world, Connection connection) {
    for (int i = 0; i < 5; ++i) {
      Tensor x = at::ones({8}).set_requires_grad(true);
      Tensor y = x * (world.rank + 1);
      for (int layer = 0; layer < 3; ++layer) y = all_reduce_with_grad(*connection.device, y) / 16;
      torch::autograd::backward({y.sum()}, {});
      CHECK_THAT(at::allclose(x.grad(), at::full({8}, world.rank + 1.0)));
    }
  });
}

TEST(RunThreads, sixty_four_ranks_reduce_and_gather) {
  run_threads(64, kPatient, [](const World& world, Connection connection) {
    const Tensor shard = at::empty({4096}), full = at::ones({64 * 4096});
    for (int i = 0; i < 20; ++i) {
      full.fill_(world.rank);
      connection.device->reduce_scatter(shard, full, ReduceOp::sum).wait();
      connection.device->all_gather(full, shard).wait();
      CHECK_THAT(at::equal(full, at::full_like(full, 63 * 32)));
    }
  });
}

TEST(Groups, opens_the_axes_of_the_mesh_once_each) {
  run_threads(8, kPatient, [](const World& world, Connection connection) {
    Groups groups(Mesh(8, {.dp_replicate = 2, .dp_shard = 2, .tp = 2}), *connection.device);
    Communicator& shard = groups.open("dp_shard");
    CHECK_THAT(&groups.open("dp_shard") == &shard && shard.size() == 2);
    CHECK_THAT(&groups.open("dp_shard", "reduce") != &shard);
    CHECK_THAT(groups.open("dp_shard", "reduce").name() == "dp_shard.reduce");
    CHECK_THAT(groups.open("pp").size() == 1);
    for (const std::string axis : {"dp_replicate", "dp_shard", "tp", "fsdp", "batch", "world"}) {
      const auto expected = groups.mesh().group(axis, world.rank);
      const auto& got = groups.open(axis).world_ranks();
      CHECK_THAT(std::vector<std::int64_t>(got.begin(), got.end()) == expected, "{}", axis);
    }
    groups.abort_all("failed step");
    comm::testing::comm_error_of([&] { shard.barrier(); });
    groups.rearm_all();
    shard.barrier();
    connection.device->barrier();
  });
}

TEST(Operation, ranks_are_listed_in_words) {
  std::vector<int> many(20);
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({1, 2, 5}), "ranks 1, 2 and 5");
  EXPECT_THAT(name_ranks(many), HasSubstr("and 4 more"));
}

}  // namespace
}  // namespace coeus::comm
