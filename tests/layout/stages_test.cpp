#include "layout/stages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace coeus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stages = std::vector<StageRange>;

constexpr std::int64_t kVocabulary = 32, kDim = 8;

ParameterSpec matrix(const std::string& fqn, std::int64_t rows, std::int64_t columns,
                     const Heads& heads = {}) {
  return {fqn, {{fqn, {rows, columns}, {}, heads}}};
}

// A chain of embedding, blocks with that many rows of kDim each, norm and head.
ModelSpec model(const std::vector<std::int64_t>& block_rows, bool tied = false) {
  ModelSpec spec;
  spec.vocab_size = kVocabulary;
  spec.dim = kDim;
  spec.layers.push_back({"embed", {matrix("embed.weight", kVocabulary, kDim)}});
  for (std::size_t i = 0; i < block_rows.size(); ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    spec.layers.push_back({name, {matrix(name + ".w", block_rows[i], kDim)}});
  }
  spec.layers.push_back({"norm", {{"norm.weight", {{"norm.weight", {kDim}, {}, {}}}}}});
  spec.layers.push_back({"head", {}});
  if (tied) {
    spec.ties.push_back({"head.weight", "embed.weight"});
  } else {
    spec.layers.back().parameters.push_back(matrix("head.weight", kVocabulary, kDim));
  }
  return spec;
}
ParallelPlan plan() {
  return ParallelPlan{}.stage("blocks.*");
}

TEST(LayerFlops, AnEmbeddingIsFreeAndTheHeadWorksForward) {
  for (const bool tied : {false, true}) {
    const auto flops = layer_flops(model({10}, tied), 64);
    ASSERT_EQ(flops.size(), 4u);
    EXPECT_EQ(flops[0].total(), 0);
    EXPECT_EQ(flops[1].forward, 2 * 10 * kDim);
    EXPECT_EQ(flops[1].backward, 2 * 10 * kDim);
    EXPECT_EQ(flops[1].weight, 2 * 10 * kDim);
    EXPECT_EQ(flops[2].total(), 0);
    EXPECT_EQ(flops[3].forward, 6 * kVocabulary * kDim) << "tied " << tied;
    EXPECT_EQ(flops[3].backward + flops[3].weight, 0);
  }
}

TEST(LayerFlops, SumToTheModelsButForVectors) {
  ModelSpec spec = model({});
  spec.num_layers = 3;
  spec.num_heads = 2;
  spec.head_dim = 4;
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    spec.layers.insert(spec.layers.end() - 2, {name,
                                               {matrix(name + ".q", kDim, kDim, {.rows = 2}),
                                                matrix(name + ".mlp", 3 * kDim, kDim)}});
  }
  double sum = 0;
  for (const auto& f : layer_flops(spec, 100)) sum += f.total();
  EXPECT_DOUBLE_EQ(sum + 6.0 * kDim, spec.flops_per_token(100));
  const auto block = layer_flops(spec, 100)[1];
  EXPECT_DOUBLE_EQ(block.backward - block.weight, 2 * (block.forward - block.weight));
}

// The costliest stage, and how uneven all are.
struct Balance {
  double most = 0, squares = 0;
};
Balance balance_of(const ModelSpec& spec, const Stages& stages) {
  const auto flops = layer_flops(spec, 16);
  Balance balance;
  for (const auto& stage : stages) {
    double cost = 0;
    for (std::size_t i = stage.begin; i < stage.end; ++i) cost += flops[i].total();
    balance.most = std::max(balance.most, cost);
    balance.squares += cost * cost;
  }
  return balance;
}

// Every way to choose `num_stages` runs that begin at 0 or at one of `cuts`.
std::vector<Stages> all_splits(std::size_t num_layers, const std::vector<std::size_t>& cuts,
                               std::size_t num_stages) {
  std::vector<Stages> all;
  for (std::size_t mask = 0; mask < (std::size_t{1} << cuts.size()); ++mask) {
    if (static_cast<std::size_t>(__builtin_popcountll(mask)) + 1 != num_stages) continue;
    Stages stages{{0, num_layers}};
    for (std::size_t bit = 0; bit < cuts.size(); ++bit) {
      if (!(mask >> bit & 1)) continue;
      stages.back().end = cuts[bit];
      stages.push_back({cuts[bit], num_layers});
    }
    all.push_back(stages);
  }
  return all;
}

TEST(SplitStages, IsTheBestOfAllCuts) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::int64_t> rows(2 + random() % 7);
    for (auto& r : rows) r = static_cast<std::int64_t>(1 + random() % 60);
    const ModelSpec spec = model(rows, round % 2 == 0);
    std::vector<std::size_t> cuts(rows.size() + 1);
    std::iota(cuts.begin(), cuts.end(), 1);
    for (std::size_t num = 1; num <= rows.size() + 2; ++num) {
      const Stages stages = split_stages(spec, plan(), static_cast<std::int64_t>(num), 16);
      Balance best{.most = 1e30, .squares = 1e30};
      for (const auto& other : all_splits(spec.layers.size(), cuts, num)) {
        const Balance b = balance_of(spec, other);
        if (std::pair(b.most, b.squares) < std::pair(best.most, best.squares)) best = b;
      }
      const Balance found = balance_of(spec, stages);
      ASSERT_EQ(stages.size(), num);
      ASSERT_DOUBLE_EQ(found.most, best.most);
      ASSERT_DOUBLE_EQ(found.squares, best.squares);
      ASSERT_EQ(stages.back().end, spec.layers.size());
      for (std::size_t k = 0; k < num; ++k) {
        ASSERT_LT(stages[k].begin, stages[k].end);
        ASSERT_EQ(stages[k].begin, k == 0 ? 0 : stages[k - 1].end);
      }
    }
  }
}

TEST(SplitStages, TheHeadTakesTheRoomOfBlocks) {
  // The head costs as much as two blocks of 16 rows: 6 blocks and it make two halves of 4.
  EXPECT_EQ(split_stages(model({16, 16, 16, 16, 16, 16}), plan(), 2, 16), (Stages{{0, 5}, {5, 9}}));
  EXPECT_EQ(split_stages(model({16, 16, 16, 16, 16, 16}, true), plan(), 2, 16),
            (Stages{{0, 5}, {5, 9}}));
}

TEST(SplitStages, EmbeddingAndNormAndHeadStayWithTheEnds) {
  EXPECT_THAT(split_stages(model({5, 5}), plan(), 1, 16), ElementsAre(StageRange{0, 5}));
  EXPECT_EQ(split_stages(model({5, 5}), plan(), 4, 16), (Stages{{0, 1}, {1, 2}, {2, 3}, {3, 5}}));
}

TEST(SplitStages, MoreStagesThanCutsAreAFaultWithTheNumbers) {
  try {
    split_stages(model({5, 5}), plan(), 5, 16);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("5 pipeline stages"), HasSubstr("5 layers"),
                                HasSubstr("4 at most")));
  }
}

TEST(SplitStages, AModelWithoutAPlanIsCutAnywhereButInItsLastUnit) {
  EXPECT_EQ(split_stages(model({5, 5}), {}, 4, 16), (Stages{{0, 1}, {1, 2}, {2, 3}, {3, 5}}));
  EXPECT_THROW(split_stages(model({5, 5}), {}, 5, 16), ConfigError);
  EXPECT_EQ(split_stages(model({}), {}, 1, 16), (Stages{{0, 3}}));
}

}  // namespace
}  // namespace coeus
