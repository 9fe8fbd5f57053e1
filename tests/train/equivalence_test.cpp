// Every combination of axes against one rank: gradients of each segment and the loss of one step,
// fp32, in two micro-batch splits. Prints a line for each layout: equal, or illegal and why.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/error.h"
#include "tests/train/layouts.h"

namespace coeus::testing {
namespace {

struct Layout {
  LayoutRun run;
  std::string illegal;  // part of the reason why it must be refused; empty: legal
};

std::string describe(const LayoutRun& run) {
  const auto& s = run.sizes;
  std::string text = fmt::format("pp{}·rep{}·shard{}·cp{}·tp{}·ep{}", s.pp, s.dp_replicate,
                                 s.dp_shard, s.cp, s.tp, s.ep);
  if (s.pp > 1) text += fmt::format(" {}x{}", run.schedule, run.stages_per_rank);
  if (s.cp > 1)
    text += run.cp_style == CpStyle::ring      ? " ring"
            : run.cp_style == CpStyle::ulysses ? " ulysses"
                                               : " all_gather";
  if (s.tp > 1 && !run.sequence_parallel) text += " whole";
  if (run.documents) text += " documents";
  if (run.recompute != Recompute::none)
    text += run.recompute == Recompute::full ? " recompute" : " selective";
  if (run.reshard == ReshardAfterForward::never) text += " never";
  if (run.accumulate == Accumulate::full) text += " full";
  return text;
}

struct ScheduleChoice {
  const char* name;
  std::int64_t stages_per_rank;
};
constexpr ScheduleChoice kSchedules[] = {
    {"1f1b", 1}, {"zero_bubble", 1}, {"gpipe", 1},     {"interleaved_1f1b", 2},
    {"zbv", 2},  {"dualpipe_v", 2},  {"looped_bfs", 2}};
constexpr CpStyle kStyles[] = {CpStyle::ring, CpStyle::all_gather, CpStyle::ulysses};

// Switches that the mesh leaves open take turns, so that many pairs of them meet.
LayoutRun with_switches(const std::string& model, const MeshSizes& sizes, std::size_t turn) {
  LayoutRun run{.sizes = sizes, .model = model};
  run.ranks =
      static_cast<int>(sizes.pp * sizes.dp_replicate * sizes.dp_shard * sizes.cp * sizes.tp);
  const auto& schedule = kSchedules[turn % std::size(kSchedules)];
  if (sizes.pp > 1) {
    run.schedule = schedule.name;
    run.stages_per_rank = schedule.stages_per_rank;
  }
  run.cp_style = kStyles[turn % std::size(kStyles)];
  run.documents = turn % 2 == 1;
  run.sequence_parallel = turn % 4 != 3;
  run.recompute = turn % 5 == 1   ? Recompute::full
                  : turn % 5 == 3 ? Recompute::selective
                                  : Recompute::none;
  run.reshard = turn % 3 == 1 ? ReshardAfterForward::never : ReshardAfterForward::automatic;
  if (sizes.pp == 1 && turn % 4 == 2) run.accumulate = Accumulate::full;
  return run;
}

// Degrees 1 and 2 of every axis, then single larger ones.
std::vector<MeshSizes> meshes(bool experts) {
  std::vector<MeshSizes> all;
  for (int bits = 1; bits < 64; ++bits) {
    const auto degree = [&](int bit) { return (bits >> bit & 1) != 0 ? 2 : 1; };
    const MeshSizes s{.pp = degree(0),
                      .dp_replicate = degree(1),
                      .dp_shard = degree(2),
                      .cp = degree(3),
                      .tp = degree(4),
                      .ep = degree(5)};
    if (s.ep > 1 && !experts) continue;
    if (s.ep > 1 && s.dp_shard * s.cp * s.tp == 1) continue;
    all.push_back(s);
  }
  const auto ep = [&](std::int64_t degree) { return experts ? degree : 1; };
  all.push_back({.dp_shard = 1, .tp = 4});
  all.push_back({.dp_shard = 2, .tp = 4, .ep = ep(4)});
  all.push_back({.dp_shard = 1, .cp = 4, .ep = ep(4)});
  all.push_back({.dp_shard = 1, .cp = 2, .tp = 4});
  all.push_back({.pp = 4, .dp_shard = 1});
  all.push_back({.pp = 3, .dp_shard = 2});
  all.push_back({.pp = 2, .dp_shard = 1, .tp = 4, .ep = ep(2)});
  all.push_back({.dp_shard = 4, .ep = ep(4)});
  all.push_back({.dp_shard = 8});
  all.push_back({.pp = 2, .dp_shard = 4, .cp = 2, .tp = 4, .ep = ep(4)});
  return all;
}

// What must be refused, said apart from the code that refuses it.
std::string reason(const LayoutRun& run, bool experts) {
  const auto& s = run.sizes;
  if (experts && s.tp > 1 && !run.sequence_parallel) return "sequence_parallel";
  if (s.cp > 1 && run.cp_style == CpStyle::ulysses && kSmallHeads % (s.cp * s.tp) != 0)
    return "ulysses";
  if (s.pp * run.stages_per_rank > kSmallLayers + 2) return "stages";
  return "";
}

// The same mesh with the switches that every mesh allows.
LayoutRun made_legal(LayoutRun run) {
  run.sequence_parallel = true;
  run.cp_style = CpStyle::ring;
  run.schedule = "1f1b";
  run.stages_per_rank = 1;
  return run;
}

class Equivalence : public ::testing::TestWithParam<const char*> {
 protected:
  const LayoutResult& reference(bool documents) {
    auto& known = references_[documents];
    if (known.losses.empty()) known = run_threads({.model = GetParam(), .documents = documents});
    return known;
  }

  // What differs from one rank; empty if nothing does.
  std::string difference(const LayoutRun& run) {
    const LayoutResult& one = reference(run.documents);
    const LayoutResult result = run_threads(run);
    std::string fault = compare_gradients(one, result) + compare_losses(one, result);
    if (result.initial_hash != one.initial_hash) fault += " initial weights differ";
    if (!(std::abs(result.grad_norms[0] / one.grad_norms[0] - 1) <= 1e-5))
      fault += fmt::format(" norm {} against {}", result.grad_norms[0], one.grad_norms[0]);
    return fault;
  }

  void expect_refused(const LayoutRun& run, const std::string& name, const std::string& why) {
    try {
      run_threads(run);
      ADD_FAILURE() << name << " ought to be refused";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << name << ": " << e.what();
      std::cout << name << " illegal: " << e.what() << std::endl;
    }
  }

  // Degrees above 1 of a mesh, by axis: every pair and triple of them that occurs together.
  void note_axes(const MeshSizes& s) {
    std::vector<std::string> axes;
    for (const auto& [axis, degree] : {std::pair{"pp", s.pp},
                                       {"dp_replicate", s.dp_replicate},
                                       {"dp_shard", s.dp_shard},
                                       {"cp", s.cp},
                                       {"tp", s.tp},
                                       {"ep", s.ep}}) {
      if (degree > 1) axes.emplace_back(axis);
    }
    for (const auto& a : axes) {
      for (const auto& b : axes) {
        for (const auto& c : axes) together_.insert({a, b, c});
      }
    }
  }

  std::map<bool, LayoutResult> references_;
  std::set<std::set<std::string>> together_;
};

TEST_P(Equivalence, every_legal_layout_gives_one_ranks_gradients_and_loss) {
  const std::string model = GetParam();
  const bool experts = has_experts(model);
  int equal = 0;
  std::size_t turn = 0;
  for (const auto& sizes : meshes(experts)) {
    LayoutRun run = with_switches(model, sizes, turn++);
    ASSERT_GE(reference(run.documents).routing_margin, 1e-4);
    const std::int64_t local = run.global_batch / (sizes.dp_replicate * sizes.dp_shard);
    run.micro_batch = local / 2;
    if (const std::string why = reason(run, experts); !why.empty()) {
      expect_refused(run, fmt::format("layout {} {}", model, describe(run)), why);
      run = made_legal(run);
    }
    for (const std::int64_t micro_batch :
         std::set{local / 2, std::max<std::int64_t>(local / 4, 1)}) {
      run.micro_batch = micro_batch;
      const std::string name =
          fmt::format("layout {} {} micro-batch {}", model, describe(run), micro_batch);
      std::string fault;
      try {
        fault = difference(run);
      } catch (const std::exception& e) {
        fault = e.what();
      }
      std::cout << name << (fault.empty() ? " equal" : " DIFFERS: " + fault) << std::endl;
      EXPECT_EQ(fault, "") << name;
      equal += fault.empty() ? 1 : 0;
    }
    note_axes(sizes);
  }
  std::cout << model << ": " << equal << " equal" << std::endl;
  EXPECT_GE(equal, experts ? 120 : 80);
  // Single axes, pairs and triples of 5 axes, of 6 with experts.
  EXPECT_EQ(together_.size(), experts ? 6u + 15u + 20u : 5u + 10u + 10u);
}

// A group of ranks whose sums never leave the rank.
class Dropping : public comm::Communicator {
 public:
  Dropping(std::unique_ptr<comm::Communicator> inner, std::string axis)
      : inner_(std::move(inner)), axis_(std::move(axis)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  const std::vector<int>& world_ranks() const override { return inner_->world_ranks(); }
  comm::Work all_reduce(Tensor t, comm::ReduceOp op, const comm::CollectiveOptions& o) override {
    if (name() == axis_ && t.scalar_type() == at::kFloat && t.dim() == 1) return {};
    return inner_->all_reduce(t, op, o);
  }
  comm::Work all_gather(Tensor out, Tensor in, const comm::CollectiveOptions& o) override {
    return inner_->all_gather(out, in, o);
  }
  comm::Work reduce_scatter(Tensor out, Tensor in, comm::ReduceOp op,
                            const comm::CollectiveOptions& o) override {
    if (name() != axis_ || in.dim() != 1) return inner_->reduce_scatter(out, in, op, o);
    out.copy_(in.narrow(0, rank() * out.numel(), out.numel()));
    return {};
  }
  comm::Work all_to_all(Tensor out, Tensor in, const std::vector<std::int64_t>& receive,
                        const std::vector<std::int64_t>& send,
                        const comm::CollectiveOptions& o) override {
    return inner_->all_to_all(out, in, receive, send, o);
  }
  comm::Work broadcast(Tensor t, int root, const comm::CollectiveOptions& o) override {
    return inner_->broadcast(t, root, o);
  }
  comm::Work send(Tensor t, int to, const comm::CollectiveOptions& o) override {
    return inner_->send(t, to, o);
  }
  comm::Work recv(Tensor t, int from, const comm::CollectiveOptions& o) override {
    return inner_->recv(t, from, o);
  }
  void barrier(const comm::CollectiveOptions& o) override { inner_->barrier(o); }
  std::unique_ptr<comm::Communicator> split(int color, const std::string& name) override {
    auto group = inner_->split(color, name);
    return group ? std::make_unique<Dropping>(std::move(group), axis_) : nullptr;
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void rearm() override { inner_->rearm(); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  std::string axis_;
};

LayoutRun five_axes() {
  return {.ranks = 16,
          .sizes = {.pp = 2, .dp_replicate = 2, .dp_shard = 1, .cp = 2, .tp = 2},
          .micro_batch = 2,
          .accumulate = Accumulate::full};
}

TEST(EquivalenceControls, a_sum_that_is_left_out_on_one_axis_is_noticed) {
  const LayoutResult reference = run_threads({});
  EXPECT_EQ(compare_gradients(reference, run_threads(five_axes())), "");
  for (const std::string axis : {"tp", "fsdp.reduce", "dp_replicate"}) {
    LayoutRun run = five_axes();
    run.wrap = [&](auto inner) { return std::make_unique<Dropping>(std::move(inner), axis); };
    EXPECT_NE(compare_gradients(reference, run_threads(run)), "") << axis;
  }
  // Keys and values of fewer heads than ranks: copies whose gradients must meet.
  LayoutRun run{.ranks = 4, .sizes = {.dp_shard = 1, .tp = 4}, .micro_batch = 2};
  EXPECT_EQ(compare_gradients(reference, run_threads(run)), "");
  run.wrap = [](auto inner) { return std::make_unique<Dropping>(std::move(inner), "tp.block2"); };
  const std::string fault = compare_gradients(reference, run_threads(run));
  EXPECT_NE(fault.find("k_proj"), std::string::npos) << fault;
}

TEST(EquivalenceControls, a_micro_batch_that_is_lost_is_noticed) {
  LayoutRun run = five_axes();
  run.before_step = [](auto, int rank, std::vector<Batch>& batches) {
    if (rank % 8 < 4) batches[1].labels.fill_(-100);
  };
  EXPECT_NE(compare_gradients(run_threads({}), run_threads(run)), "");
}

TEST(EquivalenceControls, a_factor_of_one_in_a_thousand_on_one_segment_is_noticed) {
  const LayoutResult reference = run_threads({});
  LayoutResult changed = run_threads(five_axes());
  for (float& g : changed.gradients.at("blocks.2.attention.v_proj.weight")) g *= 1.001f;
  EXPECT_NE(compare_gradients(reference, changed), "");
}

// The whole of it at once, for five steps.
TEST(Equivalence, sixty_four_ranks_on_all_axes_give_one_ranks_losses) {
  for (const char* model : small_model_names()) {
    const LayoutResult reference = run_threads({.steps = 5, .model = model});
    LayoutRun run{
        .ranks = 64,
        .sizes = {.pp = 2, .dp_shard = 4, .cp = 2, .tp = 4, .ep = has_experts(model) ? 4 : 1},
        .micro_batch = 1,
        .steps = 5,
        .model = model};
    const LayoutResult result = run_threads(run);
    EXPECT_EQ(compare_gradients(reference, result), "") << model;
    EXPECT_EQ(compare_losses(reference, result), "") << model;
  }
}

TEST(Equivalence, fifty_steps_on_five_layouts_keep_one_ranks_losses) {
  for (const std::string model : {"llama", "qwen3_moe"}) {
    const std::int64_t ep = has_experts(model) ? 2 : 1;
    const std::vector<MeshSizes> layouts = {{.dp_shard = 4, .ep = ep},
                                            {.dp_shard = 2, .tp = 2, .ep = ep},
                                            {.pp = 2, .dp_shard = 2, .ep = ep},
                                            {.pp = 2, .dp_shard = 2, .tp = 2, .ep = ep},
                                            {.pp = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = ep}};
    const LayoutResult reference = run_threads({.steps = 50, .model = model});
    for (const auto& sizes : layouts) {
      LayoutRun run{.ranks = static_cast<int>(sizes.pp * sizes.dp_shard * sizes.cp * sizes.tp),
                    .sizes = sizes,
                    .micro_batch = 2,
                    .steps = 50,
                    .model = model};
      EXPECT_EQ(compare_losses(reference, run_threads(run)), "") << model << " " << describe(run);
      run.compute = at::kBFloat16;
      const LayoutResult bf16 = run_threads(run);
      for (std::size_t i = 0; i < 50; ++i)
        ASSERT_NEAR(bf16.losses[i] / reference.losses[i], 1.0, 0.01)
            << model << " " << describe(run) << " in bf16, step " << i + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Equivalence, ::testing::ValuesIn(small_model_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace coeus::testing
