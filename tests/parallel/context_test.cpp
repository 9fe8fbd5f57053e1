#include "parallel/context/context.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "comm/connect.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "nn/attention/block_kernels.h"
#include "parallel/context/merge.h"
#include "parallel/context/zigzag.h"
#include "parallel/recompute/recompute.h"

// B sequences of L tokens, H heads, G key-value heads, K head dim of q and k, V of v
namespace coeus::parallel {
namespace {

constexpr std::int64_t B = 2, L = 24;

struct Problem {
  nn::AttentionMask mask = {};
  std::vector<std::int64_t> starts = {0, L, 2 * L};  // of the documents, over B·L tokens
  std::int64_t heads = 4, groups = 2, k_dim = 8, v_dim = 8;
  bool lse_counts = false;  // the loss reads the log-sum-exp too
  at::ScalarType dtype = at::kFloat;
};

struct Inputs {
  Tensor q, k, v, dout, dlse;
};
Inputs inputs(const Problem& p, std::int64_t length = L) {
  at::manual_seed(5);
  auto random = [&](std::int64_t heads, std::int64_t dims) {
    return at::randn({B, length, heads, dims}, at::kFloat).to(p.dtype);
  };
  return {random(p.heads, p.k_dim), random(p.groups, p.k_dim), random(p.groups, p.v_dim),
          random(p.heads, p.v_dim), at::randn({B, p.heads, length}, at::kFloat)};
}

struct Result {
  Tensor out, lse, dq, dk, dv;
};
const std::vector<std::pair<const char*, Tensor Result::*>> kParts = {{"out", &Result::out},
                                                                      {"lse", &Result::lse},
                                                                      {"dq", &Result::dq},
                                                                      {"dk", &Result::dk},
                                                                      {"dv", &Result::dv}};

// Empty, or the first part that is off by more than the bound, relative to its norm or maximum.
std::string compare(const Result& expected, const Result& result, double bound = 1e-5) {
  for (const auto& [name, part] : kParts) {
    const Tensor e = (expected.*part).cpu().to(at::kDouble),
                 r = (result.*part).cpu().to(at::kDouble);
    if (!e.sizes().equals(r.sizes())) return fmt::format("{}: another shape", name);
    const double norm = e.norm().item<double>(), off = (r - e).norm().item<double>(),
                 maximum = e.abs().max().item<double>(),
                 max_off = (r - e).abs().max().item<double>();
    if (!(off <= bound * norm && max_off <= bound * maximum))
      return fmt::format("{}: off by {} of its norm {}, {} of its maximum {}", name, off, norm,
                         max_off, maximum);
  }
  return "";
}

// [B, L, L] from the definition, token by token.
Tensor seen(const Problem& p) {
  Tensor mask = at::zeros({B, L, L}, at::kBool);
  auto document = [&](std::int64_t token) {
    return std::upper_bound(p.starts.begin(), p.starts.end(), token) - p.starts.begin();
  };
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t i = 0; i < L; ++i) {
      for (std::int64_t j = 0; j < L; ++j) {
        const bool near = p.mask.window == 0 || std::abs(i - j) < p.mask.window;
        mask[b][i][j] =
            near && (j <= i || !p.mask.causal) && document(b * L + i) == document(b * L + j);
      }
    }
  }
  return mask;
}

template <class Attend>
Result run(const Inputs& in, bool lse_counts, const Attend& attend) {
  auto leaf = [](const Tensor& x) { return x.detach().clone().requires_grad_(); };
  const Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  const nn::AttentionOut a = attend(q, k, v);
  std::vector<Tensor> roots = {a.out}, gradients = {in.dout};
  if (lse_counts) {
    roots.push_back(a.lse);
    gradients.push_back(in.dlse);
  }
  torch::autograd::backward(roots, gradients);
  return {a.out.detach(), a.lse.detach(), q.grad(), k.grad(), v.grad()};
}

// Plain libtorch in fp64.
Result reference(const Problem& p) {
  Inputs in = inputs(p);
  for (Tensor* x : {&in.q, &in.k, &in.v, &in.dout, &in.dlse}) *x = x->to(at::kDouble);
  return run(in, p.lse_counts, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    auto heads_first = [&](const Tensor& x) {
      return x.repeat_interleave(p.heads / x.size(2), 2).transpose(1, 2);
    };
    const Tensor scores =
        (at::matmul(heads_first(q), heads_first(k).transpose(2, 3)) / std::sqrt(p.k_dim))
            .masked_fill(seen(p).logical_not().unsqueeze(1), -1e300);
    return nn::AttentionOut{at::matmul(scores.softmax(-1), heads_first(v)).transpose(1, 2),
                            at::logsumexp(scores, -1)};
  });
}

nn::AttentionContext context_of(const Problem& p) {
  nn::AttentionContext c;
  c.mask = p.mask;
  c.sequence_length = L;
  c.scale = 1 / std::sqrt(static_cast<double>(p.k_dim));
  if (p.starts.size() > B + 1) {
    c.cu_seqlens = at::tensor(p.starts, at::kLong).to(at::kInt);
    for (std::size_t d = 0; d + 1 < p.starts.size(); ++d)
      c.max_document = std::max(c.max_document, p.starts[d + 1] - p.starts[d]);
  }
  return c;
}

Result dense(const Problem& p) {
  nn::DenseAttentionCore core;
  return run(inputs(p), p.lse_counts, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return core(q, k, v, context_of(p));
  });
}

using Wrap =
    std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;

// The same on `degree` ranks, put together in the order of the sequence.
Result in_parallel(const Problem& p, CpStyle style, int degree, const Wrap& wrap = {}) {
  core::set_cpu_threads(1);
  const Inputs whole = inputs(p);
  std::vector<Result> of_rank(static_cast<std::size_t>(degree));
  std::vector<Tensor> tokens;
  for (int r = 0; r < degree; ++r)
    tokens.push_back(at::tensor(context_token_index(L, degree, r), at::kLong));
  comm::run_threads(degree, {}, [&](const World& world, comm::Connection connection) {
    auto cp = std::move(connection.device);
    if (wrap) cp = wrap(std::move(cp));
    const auto core = make_context_core(style, *cp);
    const Tensor& mine = tokens[static_cast<std::size_t>(world.rank)];
    auto local = [&](const Tensor& x, int dim) { return x.index_select(dim, mine); };
    nn::AttentionContext context = context_of(p);
    context.token_index = mine;
    of_rank[static_cast<std::size_t>(world.rank)] =
        run({local(whole.q, 1), local(whole.k, 1), local(whole.v, 1), local(whole.dout, 1),
             local(whole.dlse, 2)},
            p.lse_counts, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
              return (*core)(q, k, v, context);
            });
  });
  const Tensor order = at::argsort(at::cat(tokens));
  Result result;
  for (const auto& [name, part] : kParts) {
    std::vector<Tensor> parts;
    for (const Result& r : of_rank) parts.push_back(r.*part);
    const int dim = part == &Result::lse ? 2 : 1;
    result.*part = at::cat(parts, dim).index_select(dim, order);
  }
  return result;
}

// Documents of one token, of a few, across many chunks, and to the end of a sequence.
const std::vector<std::int64_t> kDocuments = {0, 5, 6, 20, 24, 31, 48};

struct Named {
  const char* name;
  Problem problem;
};
const std::vector<Named> kMasks = {
    {"causal", {}},
    {"full", {.mask = {.causal = false}}},
    {"window", {.mask = {.window = 5}}},
    {"wide_window", {.mask = {.window = 13}}},
    {"full_window", {.mask = {.causal = false, .window = 7}}},
    {"documents", {.starts = kDocuments}},
    {"full_documents", {.mask = {.causal = false}, .starts = kDocuments}},
    {"documents_and_window", {.mask = {.window = 4}, .starts = kDocuments}},
    {"full_documents_and_window", {.mask = {.causal = false, .window = 9}, .starts = kDocuments}}};

std::vector<Problem> variants(const Problem& base, std::int64_t heads) {
  std::vector<Problem> all;
  for (const std::int64_t groups : {std::int64_t{2}, std::int64_t{1}, heads}) {
    Problem p = base;
    p.heads = heads;
    p.groups = groups;
    all.push_back(p);
  }
  all[0].v_dim = 4;
  all[1].v_dim = 12;
  all[2].lse_counts = true;
  return all;
}

class DenseCore : public ::testing::TestWithParam<Named> {};

TEST_P(DenseCore, equals_plain_libtorch_in_fp64) {
  for (const Problem& p : variants(GetParam().problem, 4))
    EXPECT_EQ(compare(reference(p), dense(p)), "") << p.groups << " key-value heads";
}
INSTANTIATE_TEST_SUITE_P(Masks, DenseCore, ::testing::ValuesIn(kMasks),
                         [](const auto& info) { return info.param.name; });

TEST(DenseCore, takes_the_last_tokens_as_queries_where_a_cache_holds_the_others) {
  Problem p{.mask = {.window = 5}};
  nn::DenseAttentionCore core;
  const Inputs in = inputs(p);
  const Result whole = dense(p);
  for (const std::int64_t count : {1, 3}) {
    const at::NoGradGuard no_grad;
    const auto last = core(in.q.narrow(1, L - count, count), in.k, in.v, context_of(p));
    EXPECT_LT((last.out - whole.out.narrow(1, L - count, count)).abs().max().item<double>(), 1e-6);
  }
}

const char* name_of(CpStyle style) {
  return style == CpStyle::ring ? "ring" : style == CpStyle::all_gather ? "all_gather" : "ulysses";
}

class Context : public ::testing::TestWithParam<std::tuple<CpStyle, Named>> {};

TEST_P(Context, equals_the_dense_core_on_the_whole_sequence) {
  const auto& [style, mask] = GetParam();
  for (const int degree : {2, 3, 4}) {
    for (const Problem& p : variants(mask.problem, degree == 3 ? 6 : 4)) {
      EXPECT_EQ(compare(dense(p), in_parallel(p, style, degree)), "")
          << degree << " ranks, " << p.groups << " key-value heads";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Styles, Context,
                         ::testing::Combine(::testing::Values(CpStyle::ring, CpStyle::all_gather,
                                                              CpStyle::ulysses),
                                            ::testing::ValuesIn(kMasks)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  std::get<1>(info.param).name;
                         });

class EveryStyle : public ::testing::TestWithParam<CpStyle> {};
INSTANTIATE_TEST_SUITE_P(Styles, EveryStyle,
                         ::testing::Values(CpStyle::ring, CpStyle::all_gather, CpStyle::ulysses),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(EveryStyle, makes_no_nan_where_all_keys_of_another_rank_are_masked) {
  Problem p;
  p.starts.clear();
  for (std::int64_t t = 0; t <= B * L; t += 3) p.starts.push_back(t);  // each chunk a document
  EXPECT_EQ(compare(dense(p), in_parallel(p, GetParam(), 4)), "");
  p.mask = {.causal = false, .window = 1};  // each token alone
  const Result alone = in_parallel(p, GetParam(), 4);
  EXPECT_EQ((alone.out - inputs(p).v.repeat_interleave(2, 2)).abs().max().item<float>(), 0.0F);
  for (const auto& [name, part] : kParts)
    EXPECT_TRUE((alone.*part).isfinite().all().item<bool>()) << name;
}

TEST_P(EveryStyle, rounds_bf16_once) {
  Problem p{.groups = 1, .dtype = at::kBFloat16};
  const Result result = in_parallel(p, GetParam(), 4);
  EXPECT_EQ(result.out.scalar_type(), at::kBFloat16);
  EXPECT_EQ(result.lse.scalar_type(), at::kFloat);
  const Result exact = reference(p);
  EXPECT_EQ(compare(exact, result, 5e-3), "");
  const Tensor off = (result.out.to(at::kDouble) - exact.out).abs();
  EXPECT_TRUE(off.le(exact.out.abs() / 256 + 1e-6).all().item<bool>());  // half a last place
}

// Rank 1 sends zeros instead of what it holds.
class Losing : public comm::Communicator {
 public:
  using Options = comm::CollectiveOptions;
  explicit Losing(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  const std::vector<int>& world_ranks() const override { return inner_->world_ranks(); }
  comm::Work all_reduce(Tensor t, comm::ReduceOp op, const Options& o) override {
    return inner_->all_reduce(t, op, o);
  }
  comm::Work all_gather(Tensor out, Tensor in, const Options& o) override {
    return inner_->all_gather(out, lose(in), o);
  }
  comm::Work reduce_scatter(Tensor out, Tensor in, comm::ReduceOp op, const Options& o) override {
    return inner_->reduce_scatter(out, in, op, o);
  }
  comm::Work all_to_all(Tensor out, Tensor in, const std::vector<std::int64_t>& receive,
                        const std::vector<std::int64_t>& send, const Options& o) override {
    return inner_->all_to_all(out, lose(in), receive, send, o);
  }
  comm::Work broadcast(Tensor t, int root, const Options& o) override {
    return inner_->broadcast(t, root, o);
  }
  comm::Work send(Tensor t, int to, const Options& o) override {
    return inner_->send(lose(t), to, o);
  }
  comm::Work recv(Tensor t, int from, const Options& o) override {
    return inner_->recv(t, from, o);
  }
  void barrier(const Options& o) override { inner_->barrier(o); }
  std::unique_ptr<comm::Communicator> split(int color, const std::string& name) override {
    return inner_->split(color, name);
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void rearm() override { inner_->rearm(); }

 private:
  Tensor lose(const Tensor& t) const { return rank() == 1 ? at::zeros_like(t) : t; }
  std::unique_ptr<comm::Communicator> inner_;
};

TEST_P(EveryStyle, is_seen_to_be_wrong_when_one_rank_loses_its_keys_and_values) {
  const Problem p;
  const Wrap losing = [](auto inner) { return std::make_unique<Losing>(std::move(inner)); };
  EXPECT_NE(compare(dense(p), in_parallel(p, GetParam(), 4, losing)), "");
}

// Attention over thirds of the input's last dim, with something around it.
class Attending : public nn::SimpleLayer {
 public:
  Attending(std::unique_ptr<nn::AttentionCore> core, nn::AttentionContext context)
      : core_(std::move(core)), context_(std::move(context)) {}

 private:
  Tensor forward(const Tensor& x) override {
    const auto qkv = x.chunk(3, -1);
    return (*core_)(qkv[0], qkv[1], qkv[2], context_).out.sin();
  }
  std::unique_ptr<nn::AttentionCore> core_;
  nn::AttentionContext context_;
};

TEST_P(EveryStyle, gives_the_same_bits_under_recompute) {
  core::set_cpu_threads(1);
  const Problem p{.mask = {.window = 6}, .starts = kDocuments};
  at::manual_seed(3);
  const Tensor x = at::randn({4, B, L / 4, 4, 24}, at::kFloat);  // of each rank
  comm::run_threads(4, {}, [&](const World& world, comm::Connection connection) {
    auto gradient = [&](bool recompute) {
      Attending layer(make_context_core(GetParam(), *connection.device), context_of(p));
      if (recompute) layer.attach(make_recompute());
      Tensor leaf = x[world.rank].clone().requires_grad_();
      layer(leaf * 1.0).square().sum().backward();
      return leaf.grad();
    };
    const Tensor plain = gradient(false);
    EXPECT_TRUE(plain.isfinite().all().item<bool>());
    EXPECT_GT(plain.norm().item<double>(), 0);
    EXPECT_TRUE(gradient(true).equal(plain)) << world.rank;
  });
}

TEST(ContextTokenIndex, gives_each_rank_a_chunk_from_either_end) {
  EXPECT_EQ(context_token_index(8, 2, 0), (std::vector<std::int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(context_token_index(8, 2, 1), (std::vector<std::int64_t>{2, 3, 4, 5}));
  for (const std::int64_t degree : {1, 3, 4}) {
    std::vector<std::int64_t> all;
    std::vector<std::int64_t> work;
    for (std::int64_t r = 0; r < degree; ++r) {
      const auto mine = context_token_index(24, degree, r);
      all.insert(all.end(), mine.begin(), mine.end());
      work.push_back(std::accumulate(mine.begin(), mine.end(), std::int64_t{0}));
    }
    std::sort(all.begin(), all.end());
    for (std::int64_t t = 0; t < 24; ++t) EXPECT_EQ(all[static_cast<std::size_t>(t)], t);
    for (const auto w : work) EXPECT_EQ(w, work[0]) << "causal work differs";
  }
}

TEST(ContextOrder, sequence_order_and_back_is_the_identity) {
  const Tensor whole = at::arange(B * L * 3).view({B, L, 3});
  const Tensor by_rank = to_rank_order(whole, 4);
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(by_rank[r].equal(
        whole.index_select(1, at::tensor(context_token_index(L, 4, r), at::kLong))));
  }
  EXPECT_TRUE(to_sequence_order(by_rank).equal(whole));
}

// By brute force: what is cut off has no pair that sees each other, each edge that stays has one.
TEST(Clip, leaves_exactly_the_rows_and_columns_with_a_visible_pair) {
  for (const bool causal : {true, false}) {
    for (const std::int64_t window : {0, 1, 2, 3, 5, 9}) {
      const nn::AttentionMask mask{causal, window};
      auto sees = [&](std::int64_t i, std::int64_t j) {
        return (!causal || j <= i) && (window == 0 || std::abs(i - j) < window);
      };
      for (std::int64_t q = 0; q < 9; q += 2) {
        for (std::int64_t k = 0; k < 9; ++k) {
          for (const std::int64_t length : {1, 2, 4, 7}) {
            const nn::Block block{{q, q + 4}, {k, k + length}};
            nn::Block expected{{99, -1}, {99, -1}};
            for (auto i = block.queries.begin; i < block.queries.end; ++i) {
              for (auto j = block.keys.begin; j < block.keys.end; ++j) {
                if (!sees(i, j)) continue;
                expected.queries = {std::min(expected.queries.begin, i),
                                    std::max(expected.queries.end, i + 1)};
                expected.keys = {std::min(expected.keys.begin, j),
                                 std::max(expected.keys.end, j + 1)};
              }
            }
            const auto clipped = nn::clip(block, mask);
            ASSERT_EQ(clipped.has_value(), expected.queries.end > 0);
            ASSERT_TRUE(clipped.value_or(expected) == expected) << q << " " << k << " " << length;
          }
        }
      }
    }
  }
}

// Blocks of 64 tokens of sequences of 256; on a GPU by flash in bf16 where that applies.
struct BlockCase {
  nn::Block block;
  nn::AttentionMask mask;
  bool documents;
};
std::vector<BlockCase> block_cases() {
  std::vector<BlockCase> all;
  for (const nn::Block& whole : {nn::Block{{64, 128}, {64, 128}}, nn::Block{{128, 192}, {64, 128}},
                                 nn::Block{{192, 256}, {0, 64}}, nn::Block{{64, 128}, {128, 192}},
                                 nn::Block{{128, 192}, {0, 256}}, nn::Block{{0, 256}, {0, 256}}}) {
    for (const nn::AttentionMask& mask :
         {nn::AttentionMask{}, nn::AttentionMask{.causal = false}, nn::AttentionMask{.window = 40},
          nn::AttentionMask{.window = 100}, nn::AttentionMask{.causal = false, .window = 90}}) {
      for (const bool documents : {false, true}) {
        if (const auto block = nn::clip(whole, mask)) all.push_back({*block, mask, documents});
      }
    }
  }
  return all;
}

void check_blocks(at::Device device, const Problem& shape, double bound) {
  const Inputs in = inputs(shape, 256);
  for (const auto& [block, mask, documents] : block_cases()) {
    nn::AttentionContext c;
    c.mask = mask;
    c.sequence_length = 256;
    c.scale = 0.2;
    if (documents) {
      c.cu_seqlens = at::tensor({0, 50, 51, 128, 140, 256, 256, 300, 512}, at::kInt).to(device);
      c.max_document = 212;
    }
    auto part = [&](const Tensor& x, const nn::Span& span) {
      return x.narrow(1, span.begin, span.length()).to(device);
    };
    const Tensor q = part(in.q, block.queries), k = part(in.k, block.keys),
                 v = part(in.v, block.keys);
    const nn::AttentionOut expected = nn::attend_by_math(q, k, v, block, c),
                           out = nn::attend(q, k, v, block, c);
    // As if other blocks had added to these queries' sums; where there was no key, there is none.
    nn::Attended attended{.out = expected.out.to(shape.dtype),
                          .lse = expected.lse + 0.5,
                          .dout = part(in.dout, block.queries)};
    const auto g = nn::attend_by_math_backward(q, k, v, attended, block, c),
               gradients = nn::attend_backward(q, k, v, attended, block, c);
    auto finite = [](const Tensor& lse) { return lse.masked_fill(lse.eq(-INFINITY), -50.0); };
    EXPECT_EQ(compare({expected.out, finite(expected.lse), g.dq, g.dk, g.dv},
                      {out.out, finite(out.lse), gradients.dq, gradients.dk, gradients.dv}, bound),
              "")
        << "queries " << block.queries.begin << "–" << block.queries.end << ", keys "
        << block.keys.begin << "–" << block.keys.end << (mask.causal ? " causal" : " full")
        << " window " << mask.window << (documents ? " documents" : "");
    if (device.is_cuda() && !documents && shape.dtype == at::kBFloat16) {
      EXPECT_TRUE(nn::flash_applies(q, v, block, c));
    }
  }
}

TEST(Block, gives_on_cpu_what_math_gives) {
  check_blocks(at::kCPU, {.k_dim = 16, .v_dim = 8}, 1e-5);
}

TEST(Block, gives_on_a_gpu_what_math_gives) {
  if (core::device_count() == 0) GTEST_SKIP() << "no GPU";
  const at::Device device(at::kCUDA, 0);
  check_blocks(device, {.k_dim = 16, .v_dim = 8, .dtype = at::kBFloat16}, 2e-2);
  check_blocks(device, {.groups = 4, .k_dim = 12, .v_dim = 20, .dtype = at::kBFloat16}, 2e-2);
  check_blocks(device, {.k_dim = 16, .v_dim = 8}, 1e-4);
}

TEST(Block, without_a_visible_key_gives_zeros_and_minus_infinity_and_no_gradient) {
  const Problem p;
  const Inputs in = inputs(p);
  nn::AttentionContext c = context_of(p);
  c.cu_seqlens = at::tensor({0, 8, 24, 32, 48}, at::kInt);
  const nn::Block block{{8, 16}, {2, 8}};
  const Tensor q = in.q.narrow(1, 8, 8), k = in.k.narrow(1, 2, 6), v = in.v.narrow(1, 2, 6);
  Merge merge(q, p.v_dim);
  for (const auto attend : {nn::attend_on_cpu, nn::attend_by_math}) {
    const auto out = attend(q, k, v, block, c);
    EXPECT_EQ(out.out.abs().max().item<float>(), 0.0F);
    EXPECT_TRUE(out.lse.eq(-INFINITY).all().item<bool>());
    merge.add(0, out);
  }
  EXPECT_EQ(merge.out().abs().max().item<float>(), 0.0F);
  EXPECT_TRUE(merge.lse().eq(-INFINITY).all().item<bool>());
  const nn::Attended attended{
      .out = merge.out(), .lse = merge.lse(), .dout = in.dout.narrow(1, 8, 8)};
  for (const auto backward : {nn::attend_on_cpu_backward, nn::attend_by_math_backward}) {
    const auto g = backward(q, k, v, attended, block, c);
    for (const Tensor& x : {g.dq, g.dk, g.dv}) EXPECT_EQ(x.abs().max().item<float>(), 0.0F);
  }
}

}  // namespace
}  // namespace coeus::parallel
