#include "layout/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace coeus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ParameterSpec parameter(const std::string& fqn) {
  return {fqn, {{fqn, {4, 4}, {}}}};
}

ModelSpec small_model(bool tied) {
  ModelSpec spec;
  spec.layers = {{"embed", {parameter("embed.weight")}},
                 {"blocks.0", {parameter("blocks.0.a"), parameter("blocks.0.b")}},
                 {"blocks.1", {parameter("blocks.1.a"), parameter("blocks.1.b")}},
                 {"norm", {parameter("norm.weight")}},
                 {"head", {}}};
  if (tied) {
    spec.ties = {{"head.weight", "embed.weight"}};
  } else {
    spec.layers.back().parameters = {parameter("head.weight")};
  }
  return spec;
}

std::vector<std::string> fqns(const UnitSpec& unit) {
  std::vector<std::string> names;
  for (const auto& p : unit.parameters) names.push_back(p.fqn);
  return names;
}

TEST(Pattern, OneStarStaysWithinADottedPartAndTwoCrossParts) {
  struct Case {
    const char *pattern, *name;
    bool expected;
  };
  for (const auto& [pattern, name, expected] : {Case{"blocks.*", "blocks.0", true},
                                                Case{"blocks.*", "blocks.10", true},
                                                Case{"blocks.*", "blocks.0.norm1", false},
                                                Case{"blocks.*", "blocks", false},
                                                Case{"blocks.*.norm*", "blocks.3.norm2", true},
                                                Case{"blocks.*.norm*", "blocks.3.mlp", false},
                                                Case{"**norm*.*", "blocks.0.norm1.weight", true},
                                                Case{"**norm*.*", "norm.weight", true},
                                                Case{"**norm*.*", "embed.weight", false},
                                                Case{"**", "any.thing.at.all", true},
                                                Case{"**", "", true},
                                                Case{"*", "one", true},
                                                Case{"*", "one.two", false},
                                                Case{"embed", "embed", true},
                                                Case{"embed", "embeds", false},
                                                Case{"em", "embed", false},
                                                Case{"", "", true},
                                                Case{"", "a", false},
                                                Case{"blocks.?", "blocks.0", false},
                                                Case{"a.b", "axb", false},
                                                Case{"*a*a*", "aaa", true},
                                                Case{"*a*b*a", "aab", false},
                                                Case{"***", "a.b", true},
                                                Case{"**.weight", "weight", false}}) {
    EXPECT_EQ(matches(pattern, name), expected) << pattern << " on " << name;
  }
}

TEST(Pattern, AManyStarredPatternOnALongNameEnds) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(2000, 'a')));
}

TEST(CheckPlan, APlanThatFitsHasNoFaults) {
  const auto plan = ParallelPlan{}
                        .style("embed", vocab_parallel())
                        .unit("blocks.*")
                        .recompute("blocks.*")
                        .stage("blocks.*");
  EXPECT_THAT(check_plan(plan, {"embed", "blocks.0", "blocks.1", "norm", "head"}), IsEmpty());
}

TEST(CheckPlan, APatternThatMatchesNothingNamesNearMisses) {
  const auto plan = ParallelPlan{}
                        .style("blocks.*.atention", head_parallel())
                        .unit("block.*")
                        .recompute("blokcs.*")
                        .stage("something.else.entirely");
  const auto faults =
      check_plan(plan, {"embed", "blocks.0", "blocks.1", "blocks.0.attention", "norm", "head"});
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_EQ(faults[0],
            "plan: style blocks.*.atention matches no layer; did you mean blocks.*.attention?");
  EXPECT_EQ(faults[1], "plan: unit block.* matches no layer; did you mean blocks.*?");
  EXPECT_THAT(faults[2], HasSubstr("recompute blokcs.* matches no layer; did you mean blocks.*?"));
  EXPECT_EQ(faults[3], "plan: stage something.else.entirely matches no layer");
}

TEST(PlanUnits, UntiedEachBlockIsAUnitAndNormSharesOneWithTheHead) {
  const auto units = plan_units(small_model(false), ParallelPlan{}.unit("blocks.*"));
  ASSERT_EQ(units.size(), 4u);
  EXPECT_EQ(units[0].name, "embed");
  EXPECT_EQ(units[1].name, "blocks.0");
  EXPECT_THAT(fqns(units[1]), ElementsAre("blocks.0.a", "blocks.0.b"));
  EXPECT_EQ(units[2].name, "blocks.1");
  EXPECT_EQ(units[3].name, "norm+head");
  EXPECT_THAT(units[3].layers, ElementsAre("norm", "head"));
  EXPECT_THAT(fqns(units[3]), ElementsAre("norm.weight", "head.weight"));
}

TEST(PlanUnits, ATiedWeightIsAUnitOfBothItsLayersAndOccursOnce) {
  const auto units = plan_units(small_model(true), ParallelPlan{}.unit("blocks.*"));
  ASSERT_EQ(units.size(), 4u);
  EXPECT_EQ(units[0].name, "embed.weight");
  EXPECT_THAT(units[0].layers, ElementsAre("embed", "head"));
  EXPECT_THAT(fqns(units[0]), ElementsAre("embed.weight"));
  EXPECT_EQ(units[3].name, "norm");
  EXPECT_THAT(units[3].layers, ElementsAre("norm"));
}

TEST(PlanUnits, AHeadThatThePlanMakesAUnitStandsAlone) {
  const auto units = plan_units(small_model(false), ParallelPlan{}.unit("blocks.*").unit("head"));
  ASSERT_EQ(units.size(), 5u);
  EXPECT_EQ(units[3].name, "norm");
  EXPECT_EQ(units[4].name, "head");
}

TEST(PlanUnits, ATieOfWhatDoesNotExistIsAFault) {
  auto spec = small_model(true);
  spec.ties = {{"head.weight", "embed.wieght"}};
  EXPECT_THROW(plan_units(spec, {}), ConfigError);
  spec.ties = {{"haed.weight", "embed.weight"}};
  EXPECT_THROW(plan_units(spec, {}), ConfigError);
}

TEST(PlanUnits, EveryParameterIsInExactlyOneUnit) {
  for (bool tied : {false, true}) {
    for (const auto& plan :
         {ParallelPlan{}, ParallelPlan{}.unit("**"), ParallelPlan{}.unit("blocks.1")}) {
      const auto spec = small_model(tied);
      std::vector<std::string> in_units, in_model;
      for (const auto& unit : plan_units(spec, plan)) {
        EXPECT_FALSE(unit.layers.empty()) << unit.name;
        for (const auto& name : fqns(unit)) in_units.push_back(name);
      }
      for (const auto& layer : spec.layers) {
        for (const auto& p : layer.parameters) in_model.push_back(p.fqn);
      }
      EXPECT_THAT(in_units, testing::UnorderedElementsAreArray(in_model));
    }
  }
}

}  // namespace
}  // namespace coeus
