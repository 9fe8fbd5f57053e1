#include "parallel/expert/expert.h"

#include <coeus/nn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "comm/connect.h"
#include "core/torch.h"
#include "parallel/expert/all_to_all.h"

namespace coeus::parallel {
namespace {

constexpr std::int64_t kDim = 12, kLength = 6, kExperts = 8;
constexpr double kBound = 1e-5, kMargin = 1e-4;
const std::string kRouter = "moe.router.weight", kGateUp = "moe.experts.gate_up.weight",
                  kDown = "moe.experts.down_proj.weight";

nn::MoeOptions options() {
  return {.num_experts = kExperts, .top_k = 3, .ffn_dim = 10, .aux_loss_alpha = 2.0};
}

struct OneMoe : nn::Model {
  OneMoe() : moe(append<nn::Moe>("moe", kDim, options())) {}
  nn::Moe& moe;
};

// Weights that all ranks draw alike. `favoured`: every token chooses the first experts.
struct Fixture {
  std::map<std::string, Tensor> weights;
  Tensor x, dy;  // [B, T, D]
  Fixture(std::int64_t sequences, bool favoured) {
    at::manual_seed(12);
    x = at::randn({sequences, kLength, kDim});
    x.select(-1, 0).fill_(1.0);
    dy = at::randn(x.sizes());
    weights[kRouter] = at::randn({kExperts, kDim}) * 0.3;
    if (favoured) weights[kRouter].select(1, 0).narrow(0, 0, 3).add_(20.0);
    weights[kGateUp] = at::randn({kExperts * 20, kDim}) * 0.4;
    weights[kDown] = at::randn({kExperts * kDim, 10}) * 0.4;
    const Tensor scores = at::linear(x, weights[kRouter]).softmax(-1);
    const Tensor sorted = std::get<0>(scores.sort(-1, true));
    EXPECT_GE((sorted.select(-1, 2) - sorted.select(-1, 3)).min().item<double>(), kMargin);
  }
};

using Result = std::map<std::string, Tensor>;  // y, dx, counts and each weight's gradient

// The layer over some of the sequences; with `ep`, over this rank's part of the experts.
Result run(const Fixture& fixture, std::int64_t first, std::int64_t count,
           comm::Communicator* ep = nullptr) {
  OneMoe model;
  for (auto& [name, p] : model.parameters()) {
    Tensor w = fixture.weights.at(name);
    if (ep != nullptr && name != kRouter) w = w.chunk(ep->size())[ep->rank()];
    p->set_data(w.clone());
  }
  if (ep != nullptr)
    model.moe.replace_child("dispatch", make_expert_dispatch(*ep, kExperts, "moe"));
  const Tensor x = fixture.x.narrow(0, first, count).clone().requires_grad_();
  Batch batch;
  batch.labels = at::zeros({count, kLength}, at::kLong);
  batch.step_sequences = fixture.x.size(0);
  batch.loss_scale = at::ones({}, at::kFloat);
  const Tensor y = model.forward(x, batch);
  y.backward(fixture.dy.narrow(0, first, count));
  Result out{{"y", y.detach()}, {"dx", x.grad()}};
  for (auto& [name, p] : model.parameters()) out[name] = p->grad();
  out["counts"] = static_cast<nn::Router*>(model.find("moe.router"))->step_counts().at(0);
  return out;
}

// Empty where `a` equals the reference by norm and by maximum.
std::string differs(const std::string& name, const Tensor& a, const Tensor& reference) {
  if (a.sizes() != reference.sizes()) return name + ": another shape";
  const Tensor r = reference.to(at::kDouble), d = a.to(at::kDouble) - r;
  if (d.norm().item<double>() > kBound * r.norm().item<double>() ||
      d.abs().max().item<double>() > kBound * r.abs().max().item<double>())
    return fmt::format("{}: off by {} of {}", name, d.abs().max().item<double>(),
                       r.abs().max().item<double>());
  return "";
}

std::string differs(const Result& a, const Result& reference) {
  for (const auto& [name, value] : reference) {
    const std::string fault = differs(name, a.at(name), value);
    if (!fault.empty()) return fault;
  }
  return "";
}

// Sequences on each rank of the ep group -> the same as one rank alone would give.
Result run_over(const Fixture& fixture, const std::vector<std::int64_t>& sequences) {
  const auto ranks = static_cast<int>(sequences.size());
  std::vector<Result> parts(sequences.size());
  comm::run_threads(ranks, {}, [&](const World& world, comm::Connection connection) {
    const auto rank = static_cast<std::size_t>(world.rank);
    const std::int64_t first =
        std::accumulate(sequences.begin(), sequences.begin() + world.rank, std::int64_t{0});
    parts[rank] = run(fixture, first, sequences[rank], connection.device.get());
  });
  Result all;
  for (const auto& [name, _] : parts[0]) {
    std::vector<Tensor> values;
    for (auto& part : parts) values.push_back(part.at(name));
    const bool summed = name == kRouter || name == "counts";
    all[name] = summed ? at::stack(values).sum(0) : at::cat(values);
  }
  return all;
}

struct Spread {
  const char* name;
  std::vector<std::int64_t> sequences;
  bool favoured = false;
};
std::ostream& operator<<(std::ostream& out, const Spread& s) {
  return out << s.name;
}

const Spread kSpreads[] = {
    {"one_rank", {4}},
    {"two_ranks", {2, 2}},
    {"four_ranks", {1, 1, 1, 1}},
    {"uneven", {5, 1, 2, 3}},
    {"a_rank_without_tokens", {3, 0, 2, 0}},
    {"all_tokens_on_one_rank", {0, 4}},
    {"all_tokens_to_one_rank_of_two", {2, 2}, true},
    {"two_of_four_ranks_idle", {1, 2, 1, 2}, true},
    {"tokens_elsewhere_than_their_experts", {0, 0, 0, 3}, true},
};

struct ExpertSpread : ::testing::TestWithParam<Spread> {};

TEST_P(ExpertSpread, output_and_every_gradient_equal_those_of_one_rank) {
  const auto& spread = GetParam();
  const auto total =
      std::accumulate(spread.sequences.begin(), spread.sequences.end(), std::int64_t{0});
  const Fixture fixture(total, spread.favoured);
  EXPECT_EQ(differs(run_over(fixture, spread.sequences), run(fixture, 0, total)), "");
}
INSTANTIATE_TEST_SUITE_P(Spreads, ExpertSpread, ::testing::ValuesIn(kSpreads),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExpertParallel, faults_are_seen_by_the_comparison) {
  const Fixture fixture(4, false);
  const Result one = run(fixture, 0, 4), two = run_over(fixture, {2, 2});
  ASSERT_EQ(differs(two, one), "");
  Result scaled = two;
  scaled[kDown] = scaled[kDown] * 1.001;
  EXPECT_NE(differs(scaled, one), "");
  Result unreduced = two;
  unreduced[kRouter] = run(fixture, 0, 2).at(kRouter);
  EXPECT_NE(differs(unreduced, one), "");
  Result lost = two;
  lost["dx"] = lost["dx"].clone();
  lost["dx"][3][0].zero_();
  EXPECT_NE(differs(lost, one), "");
}

TEST(ExpertParallel, favoured_experts_leave_the_others_idle) {
  const Fixture fixture(3, true);
  const Result one = run(fixture, 0, 3);
  const Tensor counts = one.at("counts");
  EXPECT_EQ(counts.narrow(0, 0, 3).sum().item<std::int64_t>(), 3 * kLength * 3);
  const Tensor idle = run_over(fixture, {1, 2}).at(kGateUp).chunk(kExperts)[5];
  EXPECT_TRUE(idle.equal(at::zeros_like(idle)));
}

TEST(AllToAll, sends_the_gradients_of_rows_back_to_where_they_came_from) {
  comm::run_threads(3, {}, [](const World& world, comm::Connection connection) {
    // Rank r sends r + q rows to rank q, each holding 10·r + q.
    const std::int64_t r = world.rank;
    RowTraffic traffic;
    std::vector<Tensor> rows, wanted;
    for (std::int64_t q = 0; q < 3; ++q) {
      traffic.send.push_back(r + q);
      traffic.receive.push_back(r + q);
      rows.push_back(at::full({r + q, 2}, 10.0 * r + q, at::kFloat));
      wanted.push_back(at::full({r + q, 2}, 10.0 * q + r, at::kFloat));
    }
    const Tensor x = at::cat(rows).requires_grad_();
    const Tensor y = all_to_all_rows(x, traffic, *connection.device, "test");
    EXPECT_TRUE(y.detach().equal(at::cat(wanted)));
    y.backward(y.detach() * 3);
    EXPECT_TRUE(x.grad().equal(x.detach() * 3));
  });
}

// Two ranks hold halves of the same sequences: the auxiliary loss is linear in each rank's scores
// once the counts are of the whole sequence.
TEST(CountSum, makes_the_auxiliary_loss_that_of_whole_sequences) {
  const Fixture fixture(4, false);
  auto router_gradient = [&](std::int64_t from, std::int64_t length, comm::Communicator* halves) {
    OneMoe model;
    for (auto& [name, p] : model.parameters()) p->set_data(fixture.weights.at(name).clone());
    if (halves != nullptr) model.moe.replace_child("counts", make_count_sum({halves}, "moe"));
    const Tensor x = fixture.x.narrow(1, from, length).contiguous().requires_grad_();
    Batch batch;
    batch.sequence_length = kLength;
    batch.step_sequences = 4;
    model.forward(x, batch).backward(fixture.dy.narrow(1, from, length));
    return model.parameter(kRouter).grad();
  };
  const Tensor whole = router_gradient(0, kLength, nullptr);
  std::vector<Tensor> parts(2);
  comm::run_threads(2, {}, [&](const World& world, comm::Connection connection) {
    const auto& axis = connection.device;
    parts[static_cast<std::size_t>(world.rank)] =
        world.rank == 0 ? router_gradient(0, 2, axis.get()) : router_gradient(2, 4, axis.get());
  });
  EXPECT_EQ(differs(kRouter, parts[0] + parts[1], whole), "");
  const Tensor unsummed = router_gradient(0, 2, nullptr) + router_gradient(2, 4, nullptr);
  EXPECT_NE(differs(kRouter, unsummed, whole), "");
}

}  // namespace
}  // namespace coeus::parallel
