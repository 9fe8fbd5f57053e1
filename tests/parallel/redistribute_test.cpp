#include "parallel/redistribute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>

#include "base/error.h"
#include "comm/connect.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "tests/parallel/counting.h"

namespace coeus::testing {
namespace {

using comm::Communicator;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = Placement::Kind;
using parallel::redistribute;

// What went wrong on any rank, of all cases.
class Faults {
 public:
  void add(const std::string& fault) {
    std::lock_guard lock(mutex_);
    text_ += fault + "\n";
  }
  void expect(bool good, const std::string& fault) {
    if (!good) add(fault);
  }
  std::string text() const { return text_; }

 private:
  std::mutex mutex_;
  std::string text_;
};

void on_threads(int size, const std::function<void(Communicator&)>& body) {
  core::set_cpu_threads(1);
  comm::run_threads(size, {.operation = std::chrono::seconds(120)},
                    [&](const World&, comm::Connection c) { body(*c.device); });
}

// Integers in double: any order of sums gives the same bits.
Tensor whole_tensor(const TensorLayout& layout, std::int64_t seed) {
  std::int64_t count = 1;
  for (std::int64_t size : layout.shape) count *= size;
  return at::arange(count, at::kDouble)
      .mul_(7919 + seed)
      .add_(seed * 31)
      .remainder_(1009)
      .view(layout.shape);
}

Tensor slice(Tensor whole, const TensorPart& part) {
  for (std::size_t d = 0; d < part.shape.size(); ++d) {
    whole = whole.narrow(static_cast<std::int64_t>(d), part.offset[d], part.shape[d]);
  }
  return whole.clone();
}

Tensor part_of(const Tensor& whole, const TensorLayout& layout, const Coordinates& at) {
  return slice(whole, part_at(layout, at));
}

// --- any two layouts

struct Case {
  std::int64_t seed;
  TensorLayout from, to;
  std::string text() const { return describe(from) + " -> " + describe(to); }
};

Case random_case(std::int64_t seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Case c{.seed = seed, .from = {}, .to = {}};
  const std::int64_t num_axes = 1 + seed % 4, num_dims = pick(1, 4);
  std::int64_t room = 16;
  for (std::int64_t k = 0; k < num_axes; ++k) {
    // Leaves at least 2 to each axis still to come.
    const std::int64_t most = std::max<std::int64_t>(1, room >> (num_axes - 1 - k));
    c.from.axes.push_back({std::string(1, static_cast<char>('a' + k)),
                           pick(pick(0, 9) == 0 ? 1 : std::min<std::int64_t>(2, most), most)});
    room /= c.from.axes.back().degree;
  }
  for (std::int64_t d = 0; d < num_dims; ++d) {
    c.from.shape.push_back(pick(pick(0, 19) == 0 ? 0 : 1, 9));
  }
  c.to = c.from;
  for (std::int64_t k = 0; k < num_axes; ++k) {
    const std::int64_t a = pick(0, 3), b = pick(0, a == 3 ? 4 : 2);
    c.from.placements.push_back(a == 0   ? replicate()
                                : a == 3 ? partial()
                                         : shard(pick(0, num_dims - 1)));
    c.to.placements.push_back(b == 0 || b == 3 ? replicate()
                              : b == 4         ? partial()
                                               : shard(pick(0, num_dims - 1)));
  }
  return c;
}

// The coordinates along the axes for which `use` holds, as one number.
template <class Use>
std::int64_t along(const TensorLayout& layout, const Coordinates& at, Use&& use) {
  std::int64_t number = 0;
  for (std::size_t k = 0; k < layout.axes.size(); ++k) {
    if (use(k)) number = number * layout.axes[k].degree + at[k];
  }
  return number;
}

Tensor summand(const Case& c, const Coordinates& at) {
  return whole_tensor(c.from, c.seed + 100 * along(c.from, at, [&](std::size_t k) {
                                         return c.from.placements[k].kind == Kind::partial;
                                       }));
}

// Gather and slice: the sum of the summands of all ranks that agree with this one along every axis
// that is not to be summed.
Tensor expected_output(const Case& c, const Coordinates& at) {
  Tensor sum = at::zeros(c.from.shape, at::kDouble);
  for (std::int64_t r = 0; r < num_ranks(c.from); ++r) {
    const Coordinates other = coordinates_of(c.from, r);
    bool counts = true;
    for (std::size_t k = 0; k < at.size(); ++k) {
      const bool summed =
          c.from.placements[k].kind == Kind::partial && c.to.placements[k].kind != Kind::partial;
      counts = counts && (summed || other[k] == at[k]);
    }
    if (counts) sum += summand(c, other);
  }
  return part_of(sum, c.to, at);
}

// Axes over which the output's gradient is Partial: only those gathered.
bool partial_gradient(const Case& c, std::size_t k) {
  return c.from.placements[k].kind == Kind::shard && c.to.placements[k].kind == Kind::replicate;
}

// This rank's summand of the output's gradient W: W·(i+1), i its number among the summands.
Tensor output_gradient(const Case& c, const Coordinates& at) {
  const auto i = along(c.from, at, [&](std::size_t k) { return partial_gradient(c, k); });
  return part_of(whole_tensor(c.to, c.seed + 5), c.to, at) * (i + 1);
}

Tensor expected_input_gradient(const Case& c, const Coordinates& at) {
  std::int64_t n = 1;
  for (std::size_t k = 0; k < at.size(); ++k) {
    if (partial_gradient(c, k)) n *= c.from.axes[k].degree;
  }
  return part_of(whole_tensor(c.to, c.seed + 5), c.from, at) * (n * (n + 1) / 2);
}

TensorLayout gradient_layout(const Case& c, bool of_output) {
  TensorLayout layout = of_output ? c.to : c.from;
  for (std::size_t k = 0; k < layout.placements.size(); ++k) {
    if (layout.placements[k].kind == Kind::shard) continue;
    layout.placements[k] = of_output && partial_gradient(c, k) ? partial() : replicate();
  }
  return layout;
}

void check_case(const Case& c, Communicator& mesh, Faults& faults) {
  Count count;
  const auto counting = make_counting(mesh, count);
  const Coordinates at = coordinates_of(c.from, mesh.rank());
  const auto where = [&] { return fmt::format("{}, rank {}", c.text(), mesh.rank()); };
  const Tensor x = part_of(summand(c, at), c.from, at).requires_grad_();
  const Tensor y = redistribute(x, c.from, c.to, *counting);
  faults.expect(at::equal(y, expected_output(c, at)), where() + ": another tensor");
  const std::int64_t stated = received_elements(c.from, c.to, at);
  faults.expect(count.elements == stated, fmt::format("{}: received {} elements, stated {}",
                                                      where(), count.elements, stated));
  count = {};
  y.backward(output_gradient(c, at));
  faults.expect(at::equal(x.grad(), expected_input_gradient(c, at)),
                where() + ": another gradient");
  const std::int64_t stated_back =
      received_elements(gradient_layout(c, true), gradient_layout(c, false), at);
  faults.expect(count.elements == stated_back,
                fmt::format("{}: received {} elements of the gradient, stated {}", where(),
                            count.elements, stated_back));
}

bool is_uneven(const Case& c) {
  for (const TensorLayout& layout : {c.from, c.to}) {
    const Coordinates first(layout.axes.size(), 0);
    const Coordinates last = coordinates_of(layout, num_ranks(layout) - 1);
    if (part_at(layout, first).shape != part_at(layout, last).shape) return true;
  }
  return false;
}

TEST(Redistribute, AThousandRandomOnesEqualGatherAndSliceAndReceiveWhatIsStated) {
  constexpr int kRanks = 16;
  std::map<int, std::vector<Case>> by_size;
  int num_cases = 0, num_uneven = 0, num_four_axes = 0, num_sums = 0;
  for (std::int64_t seed = 0; seed < 1000; ++seed) {
    const Case c = random_case(seed);
    by_size[static_cast<int>(num_ranks(c.from))].push_back(c);
    ++num_cases;
    num_uneven += is_uneven(c);
    num_four_axes += c.from.axes.size() == 4;
    num_sums += decompose(c.from, c.to).num_summands > 1;
  }
  EXPECT_EQ(num_cases, 1000);
  EXPECT_GT(num_uneven, 500);
  EXPECT_GT(num_four_axes, 200);
  EXPECT_GT(num_sums, 200);
  EXPECT_GT(by_size[kRanks].size(), 50u);
  Faults faults;
  on_threads(kRanks, [&](Communicator& world) {
    for (const auto& [size, cases] : by_size) {
      // As many meshes as fit take turns in the cases.
      const int num_meshes = kRanks / size, mine = world.rank() / size;
      const auto mesh = world.split(mine < num_meshes ? mine : -1, "mesh");
      if (mesh == nullptr) continue;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        if (static_cast<int>(i) % num_meshes == mine) check_case(cases[i], *mesh, faults);
      }
    }
  });
  EXPECT_EQ(faults.text(), "");
}

// --- one axis

struct Pair {
  Placement from, to;
};
std::vector<Pair> all_pairs() {
  return {{shard(0), replicate()},  {shard(1), replicate()}, {shard(2), replicate()},
          {partial(), shard(0)},    {partial(), shard(1)},   {partial(), shard(2)},
          {partial(), replicate()}, {partial(), partial()},  {replicate(), replicate()},
          {replicate(), shard(0)},  {replicate(), shard(1)}, {shard(0), shard(2)},
          {shard(2), shard(0)},     {shard(1), shard(1)}};
}

// The loss Σ w·y³, of which each rank forms its part (Shard), a share (its gradient is Partial) or
// all (Replicate); one rank alone has the gradient 3·w·y².
void check_pair(const Pair& p, const std::vector<std::int64_t>& shape, Communicator& axis,
                Faults& faults) {
  const auto layout = [&](const Placement& placement) {
    return TensorLayout{shape, {{axis.name(), axis.size()}}, {placement}};
  };
  const Coordinates at = {axis.rank()};
  const auto summand_of = [&](std::int64_t r) {
    return whole_tensor(layout(p.from), p.from.kind == Kind::partial ? 3 + r : 3).remainder(17);
  };
  Tensor whole = at::zeros(shape, at::kDouble);
  // Partial -> Partial adds nothing up: take the loss linear in y there.
  const bool linear = p.to.kind == Kind::partial;
  for (int r = 0; r < axis.size(); ++r) {
    if (p.from.kind == Kind::partial || r == 0) whole += summand_of(r);
  }
  const Tensor w = whole_tensor(layout(p.to), 11);
  const Tensor gradient = linear ? w : 3 * w * whole.pow(2);

  const Tensor x = part_of(summand_of(axis.rank()), layout(p.from), at).requires_grad_();
  const std::int64_t global =
      p.from.kind == Kind::shard ? shape[static_cast<std::size_t>(p.from.dim)] : 0;
  const Tensor y =
      redistribute(x, p.from, p.to, axis, {.global_size = global, .label = "blocks.0"});
  const bool shares = p.to.kind == Kind::replicate && p.from.kind != Kind::partial;
  const double all = axis.size() * (axis.size() + 1) / 2.0;
  const double share = shares ? (axis.rank() + 1) / all : 1;
  const Tensor my_w = part_of(w, layout(p.to), at) * share;
  (linear ? my_w * y : my_w * y.pow(3)).sum().backward();

  const auto where = fmt::format("{} -> {} of [{}] over {}, rank {}", to_string(p.from),
                                 to_string(p.to), fmt::join(shape, ", "), axis.size(), axis.rank());
  if (!linear) {
    faults.expect(at::equal(y, part_of(whole, layout(p.to), at)), where + ": another tensor");
  }
  faults.expect(at::allclose(x.grad(), part_of(gradient, layout(p.from), at), 1e-12, 0),
                where + ": another gradient");
}

TEST(Redistribute, GradientsOfEveryPairOverOneAxisAreThoseOfOneRank) {
  Faults faults;
  on_threads(4, [&](Communicator& world) {
    for (int size : {1, 2, 3, 4}) {
      const auto axis = world.split(world.rank() < size ? 0 : -1, "tp");
      if (axis == nullptr) continue;
      for (const Pair& pair : all_pairs()) {
        for (const auto& shape : std::vector<std::vector<std::int64_t>>{
                 {12, 24, 12}, {5, 7, 9}, {3, 1, 2}, {2, 0, 3}}) {
          check_pair(pair, shape, *axis, faults);
        }
      }
    }
  });
  EXPECT_EQ(faults.text(), "");
}

TEST(Redistribute, AGradientIsRedistributedFromAndToWhatTheCallerSays) {
  on_threads(2, [&](Communicator& axis) {
    const Tensor one = at::ones({2}, at::kDouble);
    const auto gradient = [&](Placement from, Placement to, parallel::RedistributeOptions options) {
      const Tensor x = at::ones({2}, at::kDouble).requires_grad_();
      redistribute(x, from, to, axis, options).backward(one * (axis.rank() + 1));
      return x.grad();
    };
    // Every rank forms the whole loss: nothing to add up.
    EXPECT_TRUE(at::equal(gradient(replicate(), replicate(), {.output_gradient = replicate()}),
                          one * (axis.rank() + 1)));
    EXPECT_TRUE(at::equal(gradient(replicate(), replicate(),
                                   {.input_gradient = partial(), .output_gradient = partial()}),
                          one * (axis.rank() + 1)));
    // Every rank forms a share.
    EXPECT_TRUE(
        at::equal(gradient(partial(), replicate(), {.output_gradient = partial()}), one * 3));
  });
}

// Passes no gradient on.
struct Swallow : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return {Tensor()};
  }
};

TEST(Redistribute, ARankWithoutAGradientStillMeetsTheOthers) {
  on_threads(2, [&](Communicator& axis) {
    const Tensor x = at::ones({2}, at::kDouble).requires_grad_();
    Tensor y = redistribute(x, shard(0), replicate(), axis);
    if (axis.rank() == 1) {
      Tensor end = y.detach().clone();
      auto node = std::shared_ptr<Swallow>(new Swallow(), torch::autograd::deleteNode);
      node->set_next_edges(torch::autograd::collect_next_edges(y));
      torch::autograd::set_history(end, node);
      y = end;
    }
    y.backward(at::arange(4, at::kDouble));
    const double first = 2.0 * axis.rank();
    EXPECT_TRUE(at::equal(x.grad(), at::arange(first, first + 2, at::kDouble)));
  });
}

TEST(Redistribute, SumsAreRoundedOnceToTheDtypeOfTheTensor) {
  on_threads(4, [&](Communicator& axis) {
    // 256 + 1 + 1 + 1: each step alone rounds back to 256 in bf16.
    for (std::int64_t size : {8, 7}) {
      const Tensor x = at::full({size}, axis.rank() == 0 ? 256 : 1, at::kBFloat16);
      for (const Placement& to : {shard(0), replicate()}) {
        const Tensor y = redistribute(x, partial(), to, axis);
        EXPECT_EQ(y.scalar_type(), at::kBFloat16);
        const Tensor expected = at::full(y.sizes(), 259, at::kFloat).to(at::kBFloat16);
        EXPECT_TRUE(at::equal(y, expected)) << to_string(to) << " of " << size;
        EXPECT_NE(expected[0].item<float>(), 256);
      }
    }
  });
}

TEST(Redistribute, WithoutGradModeNothingIsRecorded) {
  on_threads(2, [&](Communicator& axis) {
    const Tensor x = at::ones({2}).requires_grad_();
    const at::NoGradGuard guard;
    EXPECT_FALSE(redistribute(x, shard(0), replicate(), axis).requires_grad());
    EXPECT_FALSE(redistribute(x, replicate(), replicate(), axis).requires_grad());
  });
}

// --- refusals

template <class Body>
std::string refusal(Communicator& axis, Body&& body) {
  Count count;
  const auto counting = make_counting(axis, count);
  std::string text = "nothing was refused";
  try {
    body(*counting);
  } catch (const ConfigError& e) {
    text = e.what();
  }
  EXPECT_EQ(count.calls, 0) << text;
  return text;
}

TEST(Redistribute, AMismatchIsRefusedBeforeAnyCollectiveNamingOperationTensorAndAxis) {
  on_threads(2, [&](Communicator& world) {
    const auto axis = world.split(0, "tp");
    const Tensor x = at::ones({4, 6}).requires_grad_();
    const auto refused = [&](Placement from, Placement to, parallel::RedistributeOptions options) {
      options.label = "blocks.3.mlp.down_proj";
      return refusal(*axis, [&](Communicator& c) { redistribute(x, from, to, c, options); });
    };
    EXPECT_THAT(refused(shard(1), partial(), {}),
                AllOf(HasSubstr("blocks.3.mlp.down_proj: redistribute: a tensor of [4, 12] as "
                                "Shard(1) over tp 2"),
                      HasSubstr("Shard(1) cannot become Partial over tp")));
    EXPECT_THAT(refused(replicate(), partial(), {}), HasSubstr("cannot become Partial"));
    EXPECT_THAT(refused(replicate(), shard(2), {}), HasSubstr("the tensor has 2 dims"));
    EXPECT_THAT(refused(shard(5), replicate(), {}), HasSubstr("Shard(5) over tp"));
    // 5 rows are 3 and 2, not 4 and 4.
    EXPECT_THAT(refused(shard(0), replicate(), {.global_size = 5}),
                AllOf(HasSubstr("blocks.3.mlp.down_proj"), HasSubstr("holds [4, 6]"),
                      HasSubstr("[5, 6] as Shard(0) over tp 2"),
                      HasSubstr(axis->rank() == 0 ? "its part is [3, 6]" : "its part is [2, 6]")));
    EXPECT_THAT(refused(replicate(), replicate(),
                        {.input_gradient = partial(), .output_gradient = replicate()}),
                AllOf(HasSubstr("of the gradient"), HasSubstr("cannot become Partial over tp")));
  });
}

TEST(Redistribute, LayoutsThatDoNotFitAreRefusedBeforeAnyCollective) {
  on_threads(4, [&](Communicator& mesh) {
    const TensorLayout good{{8, 6}, {{"dp", 2}, {"tp", 2}}, {shard(0), replicate()}};
    const Tensor x = at::ones({4, 6});
    const auto refused = [&](const TensorLayout& to) {
      return refusal(mesh,
                     [&](Communicator& c) { redistribute(x, good, to, c, {.label = "embed"}); });
    };
    TensorLayout to = good;
    to.shape = {8, 7};
    EXPECT_THAT(refused(to), AllOf(HasSubstr("embed: redistribute"), HasSubstr("shapes differ")));
    to = good;
    to.axes = {{"tp", 2}, {"dp", 2}};
    EXPECT_THAT(refused(to), HasSubstr("the axes differ"));
    to = good;
    to.placements = {replicate(), partial()};
    EXPECT_THAT(refused(to), HasSubstr("Replicate cannot become Partial over tp"));
    to = good;
    to.placements = {replicate()};
    EXPECT_THAT(refused(to), HasSubstr("1 placements for 2 axes"));
  });
}

}  // namespace
}  // namespace coeus::testing
