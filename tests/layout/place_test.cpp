#include "layout/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/flat_layout.h"

namespace coeus {
namespace {

using ::testing::HasSubstr;

// One block with four query heads of two, two key heads, a 7-row table and four experts.
ModelSpec small_model() {
  const auto matrix = [](const std::string& fqn, std::int64_t rows, std::int64_t columns,
                         Heads heads = {}) {
    return Segment{.fqn = fqn, .shape = {rows, columns}, .heads = heads};
  };
  const auto parameter = [](const std::string& fqn, std::vector<Segment> segments) {
    return ParameterSpec{.fqn = fqn, .segments = std::move(segments)};
  };
  std::vector<Segment> experts;
  for (int e = 0; e < 4; ++e)
    experts.push_back(matrix("b.moe.experts." + std::to_string(e) + ".up.weight", 3, 6));
  ModelSpec spec;
  spec.layers.push_back({"embed", {parameter("embed.weight", {matrix("embed.weight", 7, 6)})}});
  spec.layers.push_back(
      {"b",
       {parameter("b.norm.weight", {{.fqn = "b.norm.weight", .shape = {6}}}),
        parameter("b.attention.qkv.weight", {matrix("b.attention.q.weight", 8, 6, {.rows = 4}),
                                             matrix("b.attention.k.weight", 4, 6, {.rows = 2}),
                                             matrix("b.attention.v.weight", 4, 6, {.rows = 2})}),
        parameter("b.attention.o.weight", {matrix("b.attention.o.weight", 6, 8, {.columns = 4})}),
        parameter("b.attention.q_norm.weight",
                  {{.fqn = "b.attention.q_norm.weight", .shape = {2}}}),
        parameter("b.mlp.gate_up.weight",
                  {matrix("b.mlp.gate.weight", 10, 6), matrix("b.mlp.up.weight", 10, 6)}),
        parameter("b.mlp.down.weight", {matrix("b.mlp.down.weight", 6, 10)}),
        parameter("b.moe.router.weight", {matrix("b.moe.router.weight", 4, 6)}),
        parameter("b.moe.experts.up.weight", experts)}});
  return spec;
}

ParallelPlan plan() {
  return ParallelPlan{}
      .style("embed", vocab_parallel())
      .style("b.norm", sequence_parallel())
      .style("b.attention", head_parallel())
      .style("b.mlp.gate_up", column_parallel())
      .style("b.mlp.down", row_parallel())
      .style("b.moe", expert_parallel());
}

TEST(Place, EveryElementCountsOnOneRankOnlyAndCopiesAgreeOnTheFlatLayout) {
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t group : {1, 3}) {
      std::map<std::string, std::vector<int>> counted, held;
      std::vector<std::int64_t> sizes;
      for (std::int64_t rank = 0; rank < tp; ++rank) {
        const ModelSpec placed = place(small_model(), plan(), {.tp_degree = tp, .tp = rank});
        for (const auto& unit : plan_units(placed, plan())) {
          if (unit.experts) continue;
          for (const auto& section : flat_layout(unit.parameters, group)) {
            if (rank == 0) sizes.push_back(section.num_elements);
            for (std::int64_t shard = 0; shard < group; ++shard) {
              std::vector<char> counts(static_cast<std::size_t>(section.shard_elements()), 0);
              for (const auto& [from, to] : section.counted(shard))
                std::fill(counts.begin() + from, counts.begin() + to, 1);
              for (const auto& run : section.runs(shard)) {
                const auto& s = section.segments[run.segment];
                auto& c = counted[s.segment.fqn];
                auto& h = held[s.segment.fqn];
                c.resize(static_cast<std::size_t>(s.segment.num_elements()));
                h.resize(c.size());
                for (std::int64_t i = 0; i < run.count; ++i) {
                  const auto element = static_cast<std::size_t>(run.segment_offset + i);
                  c.at(element) += counts.at(static_cast<std::size_t>(run.shard_offset + i));
                  h.at(element) += 1;
                }
              }
            }
          }
        }
      }
      for (const auto& [fqn, c] : counted) {
        for (int n : c) ASSERT_EQ(n, 1) << fqn << ", tp " << tp;
        const bool copied = fqn.find("norm") != std::string::npos || fqn.find("router") != fqn.npos;
        const bool keys = fqn == "b.attention.k.weight" || fqn == "b.attention.v.weight";
        for (int n : held[fqn]) ASSERT_EQ(n, copied ? tp : keys && tp == 4 ? 2 : 1) << fqn;
      }
    }
  }
}

TEST(Place, SumsOfCopiesAreRangesAtTheEndOfAUnit) {
  const ModelSpec placed = place(small_model(), plan(), {.tp_degree = 4, .tp = 3});
  for (const auto& unit : plan_units(placed, plan())) {
    if (unit.name != "b") continue;
    const auto sections = flat_layout(unit.parameters, 1);
    const auto ranges = sections[0].summed_ranges();
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].copies, 2);  // keys and values
    EXPECT_EQ(ranges[1].copies, 4);  // norms and the router
    EXPECT_LE(ranges[0].end, ranges[1].begin);
  }
  // Whole sequences on every rank: norm gains have equal gradients, q_norm's are of other heads.
  const ModelSpec whole =
      place(small_model(), plan(), {.tp_degree = 2, .tp = 0, .sequence_parallel = false});
  for (const auto& p : whole.layers[1].parameters) {
    if (p.fqn == "b.norm.weight") EXPECT_FALSE(p.parts[0].summed);
    if (p.fqn == "b.attention.q_norm.weight") EXPECT_TRUE(p.parts[0].summed);
  }
}

TEST(Place, ExpertsGoToTheRanksOfEp) {
  for (const std::int64_t rank : {0, 1}) {
    const ModelSpec placed = place(small_model(), plan(), {.ep_degree = 2, .ep = rank});
    const auto units = plan_units(placed, plan());
    const auto& experts = units.back();
    EXPECT_EQ(experts.name, "b.moe.experts");
    EXPECT_TRUE(experts.experts);
    ASSERT_EQ(experts.parameters[0].segments.size(), 2u);
    EXPECT_EQ(experts.parameters[0].segments[0].fqn,
              "b.moe.experts." + std::to_string(2 * rank) + ".up.weight");
    EXPECT_EQ(experts.parameters[0].local_shape(), (std::vector<std::int64_t>{6, 6}));
  }
}

TEST(Place, WhatDoesNotFitIsNamed) {
  const auto faults_of = [](const ParallelPlan& p, const PlaceOptions& options) {
    std::string all;
    for (const auto& fault : check_place(small_model(), p, options)) all += fault + "\n";
    return all;
  };
  EXPECT_EQ(faults_of(plan(), {.tp_degree = 4, .ep_degree = 4}), "");
  EXPECT_THAT(faults_of(plan(), {.tp_degree = 3}),
              HasSubstr("b.attention.q.weight: 4 heads and tp 3: tp must divide them"));
  EXPECT_THAT(faults_of(plan(), {.tp_degree = 8}),
              HasSubstr("embed.weight: 7 rows over tp 8 leave a rank without any"));
  EXPECT_THAT(faults_of(plan(), {.ep_degree = 3}), HasSubstr("ep 3 does not divide 4 experts"));
  EXPECT_THAT(faults_of(plan().style("b.attention.qkv", column_parallel()), {.tp_degree = 2}),
              HasSubstr("b.attention.qkv.weight would be cut over tp twice, by b.attention and by "
                        "b.attention.qkv"));
}

}  // namespace
}  // namespace coeus
