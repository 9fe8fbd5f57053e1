#include "optim/adamw.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::optim {
namespace {

// Two segments in one section, with padding between and behind them.
class AdamWTest : public testing::Test {
 protected:
  AdamWTest() {
    ParameterSpec matrix{"w", {{"w", {13, 11}, {}}}}, gain{"norm", {{"norm", {11}, {}}}};
    sections_ = flat_layout({matrix, gain}, 1);
    segments_ = {matrix.segments[0], gain.segments[0]};
  }

  FlatShard make_shard(at::ScalarType compute) {
    FlatShard shard;
    shard.unit = "unit";
    shard.section = &sections_[0];
    shard.runs = sections_[0].runs(0);
    shard.master = at::zeros({sections_[0].shard_elements()});
    shard.grad = at::zeros_like(shard.master);
    shard.compute = compute == at::kFloat ? shard.master : shard.master.to(compute);
    return shard;
  }
  Tensor part(const Tensor& flat, std::size_t segment) const {
    const auto& placed = sections_[0].segments[segment];
    return flat.narrow(0, placed.offset, placed.segment.num_elements());
  }
  static StepScalars scalars(double lr, double count, double apply = 1, double clip = 1) {
    const auto scalar = [](double x) { return at::tensor(x, at::kFloat); };
    return {scalar(lr), scalar(clip), scalar(count), scalar(apply)};
  }

  std::vector<FlatSection> sections_;
  std::vector<Segment> segments_;
};

TEST_F(AdamWTest, FollowsPyTorchStepByStep) {
  at::manual_seed(1);
  FlatShard shard = make_shard(at::kFloat);
  std::vector<Tensor> weights, exp_avg, exp_avg_sq, count;
  for (std::size_t s = 0; s < 2; ++s) {
    part(shard.master, s).normal_();
    weights.push_back(part(shard.master, s).clone());
    exp_avg.push_back(at::zeros_like(weights[s]));
    exp_avg_sq.push_back(at::zeros_like(weights[s]));
    count.push_back(at::zeros({}));
  }
  AdamW ours({shard}, {}, segments_);
  for (int step = 1; step <= 20; ++step) {
    ours.step(scalars(1e-2, step, 1, 0.5));
    for (std::size_t s = 0; s < 2; ++s) {
      count[s].add_(1);
      at::_fused_adamw_({weights[s]}, {part(shard.grad, s) * 0.5}, {exp_avg[s]}, {exp_avg_sq[s]},
                        {}, {count[s]}, 1e-2, 0.9, 0.95, s == 0 ? 0.1 : 0.0, 1e-8, false, false);
      ASSERT_TRUE(at::allclose(part(shard.master, s), weights[s], 1e-5, 1e-6)) << step;
      part(shard.grad, s).normal_();
    }
  }
}

TEST_F(AdamWTest, WritesTheRoundedComputeShard) {
  FlatShard shard = make_shard(at::kBFloat16);
  shard.grad.normal_();
  AdamW optimizer({shard}, {}, segments_);
  optimizer.step(scalars(1e-2, 1));
  EXPECT_TRUE(part(shard.master, 0).abs().gt(0).all().item<bool>());
  EXPECT_TRUE(at::equal(shard.compute, shard.master.to(at::kBFloat16)));
}

TEST_F(AdamWTest, LeavesPaddingAtZeroWhateverItsGradient) {
  FlatShard shard = make_shard(at::kFloat);
  shard.grad.fill_(NAN);
  part(shard.grad, 0).fill_(1);
  part(shard.grad, 1).fill_(1);
  AdamW optimizer({shard}, {}, segments_);
  optimizer.step(scalars(1e-2, 1));
  EXPECT_TRUE(at::isfinite(shard.master).all().item<bool>());
  EXPECT_EQ(shard.master.count_nonzero().item<std::int64_t>(), 13 * 11 + 11);
}

TEST_F(AdamWTest, LrScaleOfAGroupScalesItsUpdates) {
  FlatShard shard = make_shard(at::kFloat);
  shard.grad.fill_(1);
  OptimizerConfig config;
  config.groups.emplace_back().match = "norm";
  config.groups[0].lr_scale = 0.5;
  AdamW optimizer({shard}, config, segments_);
  optimizer.step(scalars(1e-2, 1));
  EXPECT_NEAR(part(shard.master, 0)[0].item<double>(), -1e-2, 1e-6);
  EXPECT_NEAR(part(shard.master, 1)[0].item<double>(), -5e-3, 1e-6);
}

TEST_F(AdamWTest, ASkippedStepChangesNothing) {
  FlatShard shard = make_shard(at::kFloat);
  shard.master.normal_();
  AdamW optimizer({shard}, {}, segments_);
  const Tensor before = shard.master.clone();
  shard.grad.fill_(NAN);
  optimizer.step(scalars(1e-2, 1, /*apply=*/0));
  EXPECT_TRUE(at::equal(shard.master, before));
  for (const auto& [name, tensors] : optimizer.state()) {
    EXPECT_EQ(tensors[0].count_nonzero().item<std::int64_t>(), 0) << name;
  }
}

TEST_F(AdamWTest, ARestoredStateContinuesWithTheSameBits) {
  at::manual_seed(2);
  FlatShard first = make_shard(at::kBFloat16), second = make_shard(at::kBFloat16);
  AdamW original({first}, {}, segments_);
  first.grad.normal_();
  original.step(scalars(1e-2, 1));

  AdamW restored({second}, {}, segments_);
  second.master.copy_(first.master);
  auto from = original.state(), to = restored.state();
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].first, to[i].first);
    to[i].second[0].copy_(from[i].second[0]);
  }
  first.grad.normal_();
  second.grad.copy_(first.grad);
  original.step(scalars(1e-2, 2));
  restored.step(scalars(1e-2, 2));
  EXPECT_TRUE(at::equal(first.master, second.master));
  EXPECT_TRUE(at::equal(first.compute, second.compute));
}

TEST_F(AdamWTest, ConvergesOnAQuadratic) {
  at::manual_seed(3);
  FlatShard shard = make_shard(at::kFloat);
  const Tensor goal = at::randn({13 * 11});
  OptimizerConfig config;
  config.weight_decay = 0;
  AdamW optimizer({shard}, config, segments_);
  for (int step = 1; step <= 500; ++step) {
    part(shard.grad, 0).copy_(part(shard.master, 0) - goal);
    optimizer.step(scalars(step < 400 ? 2e-2 : 1e-3, step));
  }
  EXPECT_LT((part(shard.master, 0) - goal).abs().max().item<double>(), 1e-2);
}

TEST_F(AdamWTest, AnUnusedGroupIsRefused) {
  FlatShard shard = make_shard(at::kFloat);
  OptimizerConfig config;
  config.groups.emplace_back().match = "nothing";
  EXPECT_THROW(AdamW({shard}, config, segments_), ConfigError);
}

}  // namespace
}  // namespace coeus::optim
