#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "base/error.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"
#include "tests/train/layouts.h"

namespace coeus::testing {
namespace {

struct Bomb : nn::Attachment {
  std::atomic<bool>* armed;
  bool in_backward;
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    if (!in_backward && armed->exchange(false)) throw DataError("the planted fault");
    nn::Tensors out = next(x);
    if (in_backward && out[0].requires_grad()) {
      out[0].register_hook([this](const Tensor&) {
        if (armed->exchange(false)) throw DataError("the planted fault");
      });
    }
    return out;
  }
};

struct Fault {
  bool in_backward;
  MeshSizes sizes;
};
class Redo : public ::testing::TestWithParam<Fault> {};

TEST_P(Redo, a_step_that_threw_on_one_rank_can_be_run_again_bit_for_bit) {
  core::set_cpu_threads(1);
  constexpr int kRanks = 4;
  std::array<double, 2> clean{}, redone{};
  for (const bool faulty : {false, true}) {
    std::atomic<bool> armed{false};
    std::barrier all(kRanks);
    std::atomic<int> threw{0};
    comm::run_threads(kRanks, {}, [&](const World& world, comm::Connection connection) {
      models::LlamaModelConfig config;
      config.config = small_llama(true);
      comm::Groups groups(Mesh(kRanks, GetParam().sizes), *connection.device);
      const auto pp = groups.mesh().degree("pp");
      parallel::ParallelModel model(
          std::make_unique<models::Llama>(config.config),
          {.plan = config.plan(),
           .stages = parallel::split_for({}, pp, 3, config.spec(), config.plan(), 16)},
          groups);
      if (world.rank == 2) {
        auto bomb = std::make_unique<Bomb>();
        bomb->armed = &armed;
        bomb->in_backward = GetParam().in_backward;
        model.model().find(pp > 1 ? "blocks.3" : "blocks.1")->attach(std::move(bomb));
      }
      model.initialise(42);
      optim::AdamW optimizer(model.shards(), {}, model.segments());
      parallel::Pipeline pipeline(model, {}, groups);
      train::TrainStep step(model, pipeline, optimizer, groups, at::kCPU, 1.0);
      auto batch = [&](int s) {
        const Tensor tokens =
            (at::arange(32).view({2, 16}) * (s + 3) + groups.coordinate("batch")) % 61;
        const Batch one{.tokens = tokens,
                        .labels = (tokens + 1) % 61,
                        .positions = at::arange(16).expand({2, 16}).contiguous()};
        return std::vector<Batch>{one, one, one};
      };
      auto first = batch(0);
      step.run(first, 1e-2);
      all.arrive_and_wait();
      if (world.rank == 2 && faulty) armed = true;
      auto second = batch(1);
      train::StepResult result;
      try {
        result = step.run(second, 1e-2);
      } catch (const std::exception& e) {
        ++threw;
        groups.abort_all(e.what());
        all.arrive_and_wait();
        groups.rearm_all();
        step.reset();
        all.arrive_and_wait();
        result = step.run(second, 1e-2);
      }
      auto third = batch(2);
      const auto after = step.run(third, 1e-2);
      if (world.rank == 0) (faulty ? redone : clean) = {result.loss, after.loss};
    });
    EXPECT_EQ(threw, faulty ? kRanks : 0);
  }
  EXPECT_EQ(clean, redone);
}

INSTANTIATE_TEST_SUITE_P(Faults, Redo,
                         ::testing::Values(Fault{false, {}}, Fault{true, {}},
                                           Fault{true, {.dp_replicate = 2}},
                                           Fault{false, {.tp = 2}}, Fault{true, {.pp = 2, .tp = 2}},
                                           Fault{false, {.pp = 2}}),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

TEST(Redo, a_rank_that_throws_ends_all_and_its_own_fault_is_the_one_reported) {
  LayoutRun run{.ranks = 4, .steps = 2};
  run.before_step = [](std::int64_t step, int rank, auto&) {
    if (step == 1 && rank == 3) throw DataError("the planted fault");
  };
  EXPECT_THROW(
      {
        try {
          run_threads(run);
        } catch (const DataError& e) {
          EXPECT_NE(std::string(e.what()).find("the planted fault"), std::string::npos);
          throw;
        }
      },
      DataError);
}

}  // namespace
}  // namespace coeus::testing
