#include "layout/flat_layout.h"

#include <gtest/gtest.h>

namespace coeus {
namespace {

std::vector<ParameterSpec> odd_parameters() {
  const auto segment = [](const std::string& fqn, std::vector<std::int64_t> shape) {
    return Segment{fqn, std::move(shape), {}};
  };
  return {{"norm1", {segment("norm1", {37})}},
          {"qkv", {segment("q", {7, 37}), segment("k", {3, 37}), segment("v", {3, 37})}},
          {"router", {segment("router", {5, 11})}, ComputeType::fp32},
          {"scalar", {segment("scalar", {})}},
          {"aligned", {segment("aligned", {128, 2})}},
          {"empty", {segment("empty", {0, 5})}},
          {"bias", {segment("bias", {9})}, ComputeType::fp32},
          {"wide", {segment("gate", {41, 29}), segment("up", {41, 29})}}};
}

TEST(FlatLayout, EveryElementOfEverySegmentLiesInExactlyOneRunOfAllShards) {
  for (std::int64_t group = 1; group <= 8; ++group) {
    for (const auto& section : flat_layout(odd_parameters(), group)) {
      std::vector<std::vector<int>> covered;
      for (const auto& s : section.segments) covered.emplace_back(s.segment.num_elements(), 0);
      for (std::int64_t shard = 0; shard < group; ++shard) {
        std::vector<int> filled(static_cast<std::size_t>(section.shard_elements()), 0);
        for (const auto& run : section.runs(shard)) {
          ASSERT_GT(run.count, 0);
          for (std::int64_t i = 0; i < run.count; ++i) {
            ++covered.at(run.segment).at(static_cast<std::size_t>(run.segment_offset + i));
            ++filled.at(static_cast<std::size_t>(run.shard_offset + i));
            ASSERT_EQ(section.segments[run.segment].offset + run.segment_offset + i,
                      shard * section.shard_elements() + run.shard_offset + i);
          }
        }
        for (int n : filled) ASSERT_LE(n, 1);
      }
      for (std::size_t s = 0; s < covered.size(); ++s) {
        for (int n : covered[s])
          ASSERT_EQ(n, 1) << section.segments[s].segment.fqn << ", group " << group;
      }
    }
  }
}

TEST(FlatLayout, ParameterStartsAndShardBoundariesAreAligned) {
  for (std::int64_t group = 1; group <= 8; ++group) {
    for (const auto& section : flat_layout(odd_parameters(), group)) {
      EXPECT_EQ(section.group, group);
      EXPECT_EQ(section.num_elements % (group * kFlatAlignment), 0);
      EXPECT_EQ(section.shard_elements() % kFlatAlignment, 0);
      std::int64_t end = 0;
      for (const auto& p : section.parameters) {
        EXPECT_EQ(p.offset % kFlatAlignment, 0) << p.fqn;
        EXPECT_GE(p.offset, end);
        EXPECT_LT(p.offset - end, kFlatAlignment) << "no more padding than alignment asks for";
        end = p.offset + p.count;
      }
      EXPECT_GE(section.num_elements, end);
      EXPECT_LT(section.num_elements - end, group * kFlatAlignment);
    }
  }
}

TEST(FlatLayout, SegmentsOfAParameterLieOneAfterAnotherInIt) {
  const auto sections = flat_layout(odd_parameters(), 3);
  const auto& section = sections.front();
  EXPECT_EQ(section.parameters[1].fqn, "qkv");
  EXPECT_EQ(section.segments[1].offset, section.parameters[1].offset);
  EXPECT_EQ(section.segments[2].offset, section.parameters[1].offset + 7 * 37);
  EXPECT_EQ(section.segments[3].offset, section.parameters[1].offset + 10 * 37);
  EXPECT_EQ(section.parameters[1].count, 13 * 37);
}

TEST(FlatLayout, ParametersOfOtherTypesFormTheirOwnSectionInOrderOfFirstUse) {
  const auto sections = flat_layout(odd_parameters(), 2);
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].compute, ComputeType::compute);
  EXPECT_EQ(sections[1].compute, ComputeType::fp32);
  ASSERT_EQ(sections[1].parameters.size(), 2u);
  EXPECT_EQ(sections[1].parameters[0].fqn, "router");
  EXPECT_EQ(sections[1].parameters[1].fqn, "bias");
}

TEST(FlatLayout, NoParametersMakeNoSections) {
  EXPECT_TRUE(flat_layout({}, 4).empty());
}

}  // namespace
}  // namespace coeus
