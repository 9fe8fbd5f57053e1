#include <coeus/nn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/torch.h"

namespace coeus {
namespace {

using nn::MoeOptions;
using nn::RouterScore;

constexpr std::int64_t kDim = 12;
constexpr double kMargin = 1e-4;

struct OneMoe : nn::Model {
  explicit OneMoe(const MoeOptions& options) : moe(append<nn::Moe>("moe", kDim, options)) {}
  nn::Router& router() { return static_cast<nn::Router&>(*find("moe.router")); }
  nn::Experts& experts() { return static_cast<nn::Experts&>(*find("moe.experts")); }
  nn::Moe& moe;
};

using Weights = std::map<std::string, Tensor>;

void fill(OneMoe& model, at::ScalarType compute = at::kFloat) {
  nn::materialize(model, at::kCPU, compute);
  at::NoGradGuard no_grad;
  at::manual_seed(3);
  for (auto& [name, p] : model.parameters()) p->copy_(at::randn(p->sizes()) * 0.4);
  for (auto& [name, b] : model.buffers()) b->copy_(at::randn(b->sizes()) * 0.3);
}

Weights in_fp64(OneMoe& model) {
  Weights all;
  for (auto& [name, p] : model.parameters())
    all[name] = p->detach().to(at::kDouble).requires_grad_();
  for (auto& [name, b] : model.buffers()) all[name] = b->to(at::kDouble);
  return all;
}

Batch training(std::int64_t B, std::int64_t T) {
  Batch batch;
  batch.labels = at::zeros({B, T}, at::kLong);
  batch.loss_scale = at::ones({}, at::kFloat);
  return batch;
}

// Distance relative to the reference, the larger of norm and maximum.
double off(const Tensor& a, const Tensor& reference) {
  const Tensor r = reference.to(at::kDouble), d = a.to(at::kDouble) - r;
  return std::max((d.norm() / r.norm()).item<double>(),
                  (d.abs().max() / r.abs().max()).item<double>());
}

// Smallest gap between the k-th and the next largest of the last dim.
double margin(const Tensor& values, std::int64_t k) {
  if (values.size(-1) == k) return std::numeric_limits<double>::infinity();
  const Tensor sorted = std::get<0>(values.sort(-1, true));
  return (sorted.select(-1, k - 1) - sorted.select(-1, k)).min().item<double>();
}

struct Expected {
  Tensor y, aux, indices;
};

// Every expert on every token, weighted by a matrix that is zero where it was not chosen.
Expected plain(const MoeOptions& o, const Weights& w, const Tensor& x_BTD) {
  const Tensor logits = at::linear(x_BTD, w.at("moe.router.weight"));
  const Tensor scores =
      o.score == RouterScore::softmax ? at::softmax(logits, -1) : at::sigmoid(logits);
  Tensor selection = scores.detach();
  if (o.bias_balancing) selection = selection + w.at("moe.router.bias");
  if (o.num_groups > 1) {
    const auto per_group = o.num_experts / o.num_groups;
    const Tensor group =
        std::get<0>(selection.unflatten(-1, {o.num_groups, per_group}).topk(2, -1)).sum(-1);
    EXPECT_GE(margin(group, o.num_limited_groups), kMargin);
    const Tensor best = std::get<1>(group.topk(o.num_limited_groups, -1));
    const Tensor group_of = at::arange(o.num_experts, at::kLong).floor_divide(per_group);
    const Tensor allowed = best.unsqueeze(-1).eq(group_of).any(-2);
    selection = at::where(allowed, selection, at::full({}, -1e9, at::kDouble));
  }
  EXPECT_GE(margin(selection, o.top_k), kMargin) << "the choice hangs on rounding";
  const Tensor chosen = std::get<1>(selection.topk(o.top_k, -1));
  const Tensor mask = at::zeros_like(scores).scatter(-1, chosen, 1.0);
  Tensor weights = scores * mask;
  if (o.normalize_weights) weights = weights / weights.sum(-1, true);
  weights = weights * o.route_scale;

  Expected out;
  out.indices = chosen;
  const auto gate_up = w.at("moe.experts.gate_up.weight").chunk(2 * o.num_experts);
  const auto down = w.at("moe.experts.down_proj.weight").chunk(o.num_experts);
  out.y = at::zeros_like(x_BTD);
  for (std::int64_t e = 0; e < o.num_experts; ++e) {
    const Tensor h =
        at::silu(at::linear(x_BTD, gate_up[2 * e])) * at::linear(x_BTD, gate_up[2 * e + 1]);
    out.y = out.y + weights.select(-1, e).unsqueeze(-1) * at::linear(h, down[e]);
  }
  if (o.shared_ffn_dim > 0) {
    const auto parts = at::linear(x_BTD, w.at("moe.shared.gate_up.weight")).chunk(2, -1);
    out.y = out.y + at::linear(at::silu(parts[0]) * parts[1], w.at("moe.shared.down_proj.weight"));
  }
  const Tensor p = scores / scores.sum(-1, true);
  const auto T = static_cast<double>(x_BTD.size(1)), B = static_cast<double>(x_BTD.size(0));
  out.aux = (mask.sum(1) * p.sum(1)).sum() * o.aux_loss_alpha * static_cast<double>(o.num_experts) /
            (static_cast<double>(o.top_k) * T * T * B);
  return out;
}

struct Variant {
  const char* name;
  MoeOptions options;
};
std::ostream& operator<<(std::ostream& out, const Variant& v) {
  return out << v.name;
}

const Variant kVariants[] = {
    {"softmax", {.num_experts = 6, .top_k = 2, .ffn_dim = 10}},
    {"softmax_as_it_is", {.num_experts = 6, .top_k = 3, .ffn_dim = 10, .normalize_weights = false}},
    {"one_of_one", {.num_experts = 1, .top_k = 1, .ffn_dim = 10, .normalize_weights = false}},
    {"every_expert", {.num_experts = 4, .top_k = 4, .ffn_dim = 10}},
    {"sigmoid_with_bias",
     {.num_experts = 6,
      .top_k = 2,
      .ffn_dim = 10,
      .score = RouterScore::sigmoid,
      .route_scale = 2.5,
      .bias_balancing = true}},
    {"groups",
     {.num_experts = 12,
      .top_k = 3,
      .ffn_dim = 6,
      .shared_ffn_dim = 14,
      .score = RouterScore::sigmoid,
      .num_groups = 4,
      .num_limited_groups = 2,
      .bias_balancing = true}},
    {"softmax_auxiliary_loss",
     {.num_experts = 6, .top_k = 2, .ffn_dim = 10, .aux_loss_alpha = 5.0}},
    {"sigmoid_auxiliary_loss",
     {.num_experts = 6,
      .top_k = 2,
      .ffn_dim = 10,
      .score = RouterScore::sigmoid,
      .aux_loss_alpha = 5.0}},
};

struct MoeParity : ::testing::TestWithParam<Variant> {};

TEST_P(MoeParity, output_and_every_gradient_equal_those_of_plain_libtorch_in_fp64) {
  const MoeOptions& options = GetParam().options;
  OneMoe model(options);
  fill(model);
  const Weights reference = in_fp64(model);
  const std::int64_t B = 3, T = 9;
  const Tensor x = at::randn({B, T, kDim}).requires_grad_(), dy = at::randn({B, T, kDim});
  const Tensor x64 = x.detach().to(at::kDouble).requires_grad_();

  const Tensor y = model.forward(x, training(B, T));
  y.backward(dy);
  const Expected expected = plain(options, reference, x64);
  ((expected.y * dy.to(at::kDouble)).sum() + expected.aux).backward();

  EXPECT_LT(off(y.detach(), expected.y.detach()), 1e-5);
  EXPECT_LT(off(x.grad(), x64.grad()), 1e-5);
  for (auto& [name, p] : model.parameters()) {
    if (options.num_experts == 1 && name == "moe.router.weight") continue;  // its score is 1
    EXPECT_LT(off(p->grad(), reference.at(name).grad()), 1e-5) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Variants, MoeParity, ::testing::ValuesIn(kVariants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Moe, in_bf16_stays_near_fp32_and_the_router_is_computed_in_fp32) {
  const MoeOptions options{.num_experts = 6, .top_k = 2, .ffn_dim = 10, .shared_ffn_dim = 6};
  OneMoe model(options);
  fill(model, at::kBFloat16);
  EXPECT_EQ(model.parameter("moe.router.weight").scalar_type(), at::kFloat);
  EXPECT_EQ(model.parameter("moe.experts.gate_up.weight").scalar_type(), at::kBFloat16);
  const Weights reference = in_fp64(model);
  const std::int64_t B = 2, T = 16;
  const Tensor x = at::randn({B, T, kDim}).to(at::kBFloat16).requires_grad_();
  const Tensor dy = at::randn({B, T, kDim}).to(at::kBFloat16);
  const Tensor x64 = x.detach().to(at::kDouble).requires_grad_();
  const nn::Routing routing = model.router()(x, {});
  EXPECT_EQ(routing.weights.scalar_type(), at::kFloat);

  const Tensor y = model.forward(x, training(B, T));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.backward(dy);
  const Expected expected = plain(options, reference, x64);
  expected.y.backward(dy.to(at::kDouble));
  EXPECT_TRUE(std::get<0>(routing.indices.sort(-1)).equal(std::get<0>(expected.indices.sort(-1))));
  EXPECT_LT(off(y.detach(), expected.y.detach()), 2e-2);
  EXPECT_LT(off(x.grad(), x64.grad()), 2e-2);
  for (auto& [name, p] : model.parameters())
    EXPECT_LT(off(p->grad(), reference.at(name).grad()), 2e-2) << name;
}

TEST(Router, gives_the_lowest_index_of_equal_scores) {
  OneMoe model({.num_experts = 12, .top_k = 3, .ffn_dim = 4});
  fill(model);
  model.parameter("moe.router.weight").detach().zero_();
  const nn::Routing r = model.router()(at::randn({2, 5, kDim}), {});
  EXPECT_TRUE(r.indices.equal(at::arange(3, at::kLong).expand({2, 5, 3})));
  EXPECT_LT((r.weights - 1.0 / 3).abs().max().item<double>(), 1e-6);
}

TEST(Router, leaves_groups_out_that_a_free_choice_would_take) {
  MoeOptions options{.num_experts = 12,
                     .top_k = 4,
                     .ffn_dim = 4,
                     .score = RouterScore::sigmoid,
                     .num_groups = 4,
                     .num_limited_groups = 2};
  OneMoe limited(options);
  options.num_groups = options.num_limited_groups = 1;
  OneMoe free(options);
  fill(limited);
  fill(free);
  const Tensor x = at::randn({1, 40, kDim});
  auto groups_used = [&](OneMoe& model) {
    const Tensor group = model.router()(x, {}).indices.floor_divide(3).flatten(0, 1);
    return at::zeros({40, 4}).scatter(1, group, 1.0).sum(1).max().item<double>();
  };
  EXPECT_EQ(groups_used(limited), 2);
  EXPECT_GT(groups_used(free), 2);
}

TEST(Router, the_bias_steers_the_choice_and_not_the_weights) {
  OneMoe model({.num_experts = 4,
                .top_k = 1,
                .ffn_dim = 4,
                .score = RouterScore::sigmoid,
                .normalize_weights = false,
                .bias_balancing = true});
  fill(model);
  Tensor bias = *model.buffers().at("moe.router.bias");
  bias.copy_(at::tensor({0.0f, 0.0f, 9.0f, 0.0f}));
  const nn::Routing r = model.router()(at::randn({1, 6, kDim}), {});
  EXPECT_TRUE(r.indices.eq(2).all().item<bool>());
  EXPECT_TRUE(r.weights.squeeze(-1).equal(r.scores.select(-1, 2)));
}

TEST(Router, counts_a_training_token_once_also_under_recompute_and_never_in_evaluation) {
  OneMoe model({.num_experts = 6, .top_k = 2, .ffn_dim = 4});
  fill(model);
  const Tensor x = at::randn({2, 7, kDim}).requires_grad_();
  const Batch batch = training(2, 7);
  auto counted = [&] { return model.router().step_counts().at(0).clone(); };
  EXPECT_EQ(counted().sum().item<std::int64_t>(), 0);
  {
    at::NoGradGuard first_pass;
    model.forward(x, batch);
  }
  const Tensor once = counted();
  EXPECT_EQ(once.sum().item<std::int64_t>(), 2 * 7 * 2);
  const Tensor chosen = model.router()(x, {}).indices.flatten();
  EXPECT_TRUE(once.equal(at::bincount(chosen, {}, 6)));
  {
    nn::RecomputeGuard guard;
    model.forward(x, batch);
  }
  EXPECT_TRUE(counted().equal(once));
  Batch validation = batch;
  validation.loss_scale = Tensor();
  model.forward(x, validation);
  EXPECT_TRUE(counted().equal(once));
  model.forward(x, batch);
  EXPECT_TRUE(counted().equal(once * 2));

  model.router().end_of_step(at::ones({}));
  EXPECT_EQ(counted().sum().item<std::int64_t>(), 0);
  EXPECT_DOUBLE_EQ(model.moe.router().load().mean, 2 * 28.0 / 6);
  EXPECT_DOUBLE_EQ(model.moe.router().load().max, 2.0 * once.max().item<std::int64_t>());
}

TEST(Router, lifts_the_bias_of_experts_below_the_mean_and_lowers_it_above) {
  OneMoe model({.num_experts = 4,
                .top_k = 1,
                .ffn_dim = 4,
                .bias_balancing = true,
                .bias_update_speed = 0.25});
  nn::materialize(model, at::kCPU, at::kFloat);
  const Tensor bias = *model.buffers().at("moe.router.bias");
  EXPECT_TRUE(bias.equal(at::zeros({4})));
  EXPECT_FALSE(bias.requires_grad());
  model.router().step_counts().at(0).copy_(at::tensor({5, 0, 9, 6}, at::kLong));  // mean 5
  model.router().end_of_step(at::ones({}));
  EXPECT_TRUE(bias.equal(at::tensor({0.0f, 0.25f, -0.25f, -0.25f})));
  model.router().end_of_step(at::ones({}));  // nothing was counted
  EXPECT_TRUE(bias.equal(at::tensor({0.0f, 0.25f, -0.25f, -0.25f})));
}

TEST(Router, balances_the_load_over_steps) {
  OneMoe model({.num_experts = 8,
                .top_k = 2,
                .ffn_dim = 4,
                .score = RouterScore::sigmoid,
                .bias_balancing = true,
                .bias_update_speed = 0.02});
  fill(model);
  Tensor bias = *model.buffers().at("moe.router.bias");
  bias.zero_();
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({4, 64, kDim}) + at::randn({kDim});  // some experts suit all tokens
  double first = 0;
  for (int step = 0; step < 60; ++step) {
    model.forward(x, training(4, 64));
    model.router().end_of_step(at::ones({}));
    if (step == 0) first = model.router().load().max;
  }
  EXPECT_GT(first, 1.8 * model.router().load().mean);
  EXPECT_LT(model.router().load().max, 1.3 * model.router().load().mean);
}

TEST(Moe, names_its_segments_and_buffers_as_the_file_has_them) {
  const OneMoe model({.num_experts = 2,
                      .top_k = 1,
                      .ffn_dim = 5,
                      .shared_ffn_dim = 7,
                      .bias_balancing = true,
                      .down_std = 0.01});
  const LayerSpec spec = model.layer_specs().at(0);
  std::vector<std::string> names;
  for (const auto& p : spec.parameters) {
    names.push_back(p.fqn + (p.compute == ComputeType::fp32 ? " fp32" : ""));
    for (const auto& s : p.segments)
      names.push_back(fmt::format("{} {}x{} {}", s.fqn, s.shape.at(0), s.shape.at(1), s.init.std));
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "moe.router.weight fp32", "moe.router.weight 2x12 0.02", "moe.experts.gate_up.weight",
          "moe.experts.0.gate_proj.weight 5x12 0.02", "moe.experts.0.up_proj.weight 5x12 0.02",
          "moe.experts.1.gate_proj.weight 5x12 0.02", "moe.experts.1.up_proj.weight 5x12 0.02",
          "moe.experts.down_proj.weight", "moe.experts.0.down_proj.weight 12x5 0.01",
          "moe.experts.1.down_proj.weight 12x5 0.01", "moe.shared.gate_up.weight",
          "moe.shared.gate_proj.weight 7x12 0.02", "moe.shared.up_proj.weight 7x12 0.02",
          "moe.shared.down_proj.weight", "moe.shared.down_proj.weight 12x7 0.01"}));
  ASSERT_EQ(spec.buffers.size(), 1u);
  EXPECT_EQ(spec.buffers[0], (Segment{"moe.router.bias", {2}, {InitKind::zeros, 0}, {}}));
}

TEST(Moe, does_not_depend_on_the_split_into_micro_batches) {
  const MoeOptions options{
      .num_experts = 6, .top_k = 2, .ffn_dim = 10, .shared_ffn_dim = 6, .aux_loss_alpha = 3.0};
  const std::int64_t B = 4, T = 8;
  at::manual_seed(8);
  const Tensor x = at::randn({B, T, kDim}), dy = at::randn({B, T, kDim});
  auto run = [&](std::int64_t micro_batch, std::int64_t step_sequences) {
    OneMoe model(options);
    fill(model);
    std::map<std::string, Tensor> out;
    std::vector<Tensor> y, dx;
    for (std::int64_t b = 0; b < B; b += micro_batch) {
      const Tensor part = x.narrow(0, b, micro_batch).clone().requires_grad_();
      Batch batch = training(micro_batch, T);
      batch.step_sequences = step_sequences;
      y.push_back(model.forward(part, batch));
      y.back().backward(dy.narrow(0, b, micro_batch));
      dx.push_back(part.grad());
    }
    for (auto& [name, p] : model.parameters()) out[name] = p->grad();
    out["y"] = at::cat(y).detach();
    out["dx"] = at::cat(dx);
    out["counts"] = model.router().step_counts().at(0);
    return out;
  };
  const auto whole = run(B, B), again = run(B, B), split = run(1, B), unaware = run(1, 0);
  for (const auto& [name, value] : whole) {
    EXPECT_TRUE(again.at(name).equal(value)) << name;
    EXPECT_LT(off(split.at(name), value), 2e-6) << name;
  }
  // Control: an auxiliary loss that is divided by the sequences of the micro-batch is another one.
  EXPECT_GT(off(unaware.at("moe.router.weight"), whole.at("moe.router.weight")), 1e-2);
}

TEST(LocalDispatch, sums_in_slot_order_whatever_other_tokens_there_are) {
  at::manual_seed(4);
  const std::int64_t N = 40, k = 3, E = 5;
  const Tensor x = at::randn({N, kDim}), dy = at::randn({N, kDim}), weights = at::rand({N, k});
  const Tensor indices = at::rand({N, E}).argsort(-1, false).narrow(1, 0, k).contiguous();
  const nn::ExpertRows experts = [](const Tensor& rows, const std::vector<std::int64_t>& counts) {
    std::vector<Tensor> parts;
    std::int64_t first = 0;
    for (std::size_t e = 0; e < counts.size(); first += counts[e++])
      parts.push_back(rows.narrow(0, first, counts[e]) * (0.5 + static_cast<double>(e)));
    return at::cat(parts);
  };
  auto run = [&](std::int64_t part) {
    nn::LocalDispatch layer(E);
    nn::MoeDispatch& dispatch = layer;
    std::vector<Tensor> y, dx, dw;
    for (std::int64_t n = 0; n < N; n += part) {
      const Tensor xs = x.narrow(0, n, part).clone().requires_grad_(),
                   ws = weights.narrow(0, n, part).clone().requires_grad_();
      y.push_back(dispatch(xs, indices.narrow(0, n, part), ws, experts));
      y.back().backward(dy.narrow(0, n, part));
      dx.push_back(xs.grad());
      dw.push_back(ws.grad());
    }
    return std::vector<Tensor>{at::cat(y).detach(), at::cat(dx), at::cat(dw)};
  };
  const auto whole = run(N);
  for (const std::int64_t part : {1, 8}) {
    const auto parts = run(part);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(parts[i].equal(whole[i])) << part;
  }
  auto result_of_slot = [&](std::int64_t j) {
    return x * (indices.select(1, j).to(at::kFloat) + 0.5).unsqueeze(1);
  };
  auto weight = [&](std::int64_t j) { return weights.select(1, j).unsqueeze(1); };
  Tensor expected = result_of_slot(0) * weight(0);
  for (std::int64_t j = 1; j < k; ++j) expected.addcmul_(result_of_slot(j), weight(j));
  EXPECT_TRUE(whole[0].equal(expected));
}

struct Slot {  // a unit's gradient slot that still holds garbage
  explicit Slot(nn::Parameter& p) : target(std::make_shared<nn::GradTarget>()) {
    target->buffer = at::full(p.sizes(), std::numeric_limits<double>::quiet_NaN(), at::kFloat);
    p.target = target;
  }
  std::shared_ptr<nn::GradTarget> target;
};

TEST(Experts, that_are_idle_get_a_zero_gradient_over_the_garbage_of_a_slot) {
  OneMoe model({.num_experts = 4, .top_k = 1, .ffn_dim = 5}),
      plain_model({.num_experts = 4, .top_k = 1, .ffn_dim = 5});
  fill(model);
  fill(plain_model);
  const std::vector<std::string> names{"moe.experts.gate_up.weight",
                                       "moe.experts.down_proj.weight"};
  std::vector<Slot> slots;
  for (const auto& name : names) slots.emplace_back(model.parameter(name));
  auto run = [&](const std::vector<std::int64_t>& counts) {
    const Tensor x = at::randn({counts[0] + counts[1] + counts[2] + counts[3], kDim});
    for (OneMoe* m : {&model, &plain_model}) {
      nn::LayerOf<Tensor(const Tensor&, const std::vector<std::int64_t>&)>& layer = m->experts();
      layer(x.clone().requires_grad_(), counts).square().sum().backward();
    }
  };
  auto check = [&] {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor got = slots[i].target->buffer.chunk(4)[1],
                   all = plain_model.parameter(names[i]).grad();
      EXPECT_TRUE(got.equal(at::zeros_like(got)));
      EXPECT_LT(off(slots[i].target->buffer, all), 1e-6) << names[i];
      EXPECT_FALSE(model.parameter(names[i]).grad().defined());
    }
  };
  run({3, 0, 0, 2});
  check();
  run({0, 0, 4, 1});  // adds
  check();
}

TEST(Experts, without_any_row_leave_their_slot_to_be_overwritten) {
  OneMoe model({.num_experts = 2, .top_k = 1, .ffn_dim = 5});
  fill(model);
  Slot gate_up(model.parameter("moe.experts.gate_up.weight")),
      down(model.parameter("moe.experts.down_proj.weight"));
  nn::LayerOf<Tensor(const Tensor&, const std::vector<std::int64_t>&)>& layer = model.experts();
  const Tensor x = at::zeros({0, kDim}).requires_grad_();
  const Tensor y = layer(x, {0, 0});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, kDim}));
  y.sum().backward();
  EXPECT_EQ(gate_up.target->next, nn::GradTarget::Write::overwrite);
  EXPECT_EQ(down.target->next, nn::GradTarget::Write::overwrite);
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

}  // namespace
}  // namespace coeus
