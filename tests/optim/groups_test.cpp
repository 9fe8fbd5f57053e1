#include "optim/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace coeus::optim {
namespace {

using testing::HasSubstr;

const std::vector<Segment> kSegments = {{"embed.weight", {100, 8}, {}},
                                        {"blocks.0.norm1.weight", {8}, {}},
                                        {"blocks.0.mlp.up_proj.weight", {16, 8}, {}},
                                        {"norm.weight", {8}, {}}};

OptimizerGroup group(const std::string& match) {
  OptimizerGroup made;
  made.match = match;
  return made;
}
OptimizerConfig with(std::vector<OptimizerGroup> groups) {
  OptimizerConfig config;
  config.groups = std::move(groups);
  return config;
}

std::string fault(const OptimizerConfig& config) {
  try {
    assign_groups(config, kSegments);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Groups, DecayFallsOnSegmentsOfTwoDimsUnlessSaidOtherwise) {
  const auto groups = assign_groups({}, kSegments);
  EXPECT_EQ(groups.at("embed.weight").weight_decay, 0.1);
  EXPECT_EQ(groups.at("norm.weight").weight_decay, 0.0);
  EXPECT_EQ(groups.at("norm.weight").lr_scale, 1.0);
}

TEST(Groups, TheFirstMatchWins) {
  OptimizerGroup norms = group("**norm*.*"), all = group("**");
  norms.weight_decay = 0.5;
  all.lr_scale = 2.0;
  const auto groups = assign_groups(with({norms, all}), kSegments);
  EXPECT_EQ(groups.at("norm.weight").weight_decay, 0.5);
  EXPECT_EQ(groups.at("norm.weight").lr_scale, 1.0);
  EXPECT_EQ(groups.at("blocks.0.norm1.weight").weight_decay, 0.5);
  EXPECT_EQ(groups.at("embed.weight").lr_scale, 2.0);
  EXPECT_EQ(groups.at("embed.weight").weight_decay, 0.1);
}

TEST(Groups, AnUnusedPatternIsAnErrorThatNamesNearMisses) {
  const std::string text = fault(with({group("blocks.*.mlp.up_prog.weight")}));
  EXPECT_THAT(text, HasSubstr("optimizer.groups.0.match: blocks.*.mlp.up_prog.weight"));
  EXPECT_THAT(text, HasSubstr("did you mean blocks.*.mlp.up_proj.weight"));
}

TEST(Groups, AGroupWhoseSegmentsAreAllTakenIsUnused) {
  EXPECT_THAT(fault(with({group("**"), group("norm.weight")})),
              HasSubstr("optimizer.groups.1.match: norm.weight is unused"));
}

}  // namespace
}  // namespace coeus::optim
