#include "layout/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace coeus {
namespace {

using Ranks = std::vector<std::int64_t>;
using testing::HasSubstr;

// A rank's place as torch's DeviceMesh has it: arange(world).reshape(sizes), counted by hand.
struct Place {
  std::int64_t pp, dp_replicate, dp_shard, cp, tp;
};
std::vector<Place> row_major_grid(const MeshSizes& s) {
  std::vector<Place> grid;
  for (std::int64_t p = 0; p < s.pp; ++p)
    for (std::int64_t r = 0; r < s.dp_replicate; ++r)
      for (std::int64_t d = 0; d < s.dp_shard; ++d)
        for (std::int64_t c = 0; c < s.cp; ++c)
          for (std::int64_t t = 0; t < s.tp; ++t) grid.push_back({p, r, d, c, t});
  return grid;
}

std::vector<MeshSizes> many_sizes() {
  std::vector<MeshSizes> all;
  for (std::int64_t pp : {1, 2, 3})
    for (std::int64_t r : {1, 2})
      for (std::int64_t d : {1, 2, 3})
        for (std::int64_t cp : {1, 2})
          for (std::int64_t tp : {1, 2, 4})
            for (std::int64_t ep : {1, 2, 3, 4, 6, 8}) {
              if ((d * cp * tp) % ep == 0) {
                all.push_back(
                    {.pp = pp, .dp_replicate = r, .dp_shard = d, .cp = cp, .tp = tp, .ep = ep});
              }
            }
  return all;
}

std::int64_t world_of(const MeshSizes& s) {
  return s.pp * s.dp_replicate * s.dp_shard * s.cp * s.tp;
}

TEST(Mesh, EveryCoordinateIsThatOfTheRowMajorGrid) {
  for (const auto& s : many_sizes()) {
    const Mesh mesh(world_of(s), s);
    const auto grid = row_major_grid(s);
    ASSERT_EQ(static_cast<std::int64_t>(grid.size()), mesh.size());
    for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
      const Place& at = grid[static_cast<std::size_t>(rank)];
      // Expert axes: torch reshapes (dp_shard, cp, tp) to (efsdp, ep).
      const std::int64_t flat = (at.dp_shard * s.cp + at.cp) * s.tp + at.tp;
      const std::map<std::string, std::int64_t> expected = {
          {"pp", at.pp},
          {"dp_replicate", at.dp_replicate},
          {"dp_shard", at.dp_shard},
          {"cp", at.cp},
          {"tp", at.tp},
          {"batch", at.dp_replicate * s.dp_shard + at.dp_shard},
          {"loss", (at.dp_replicate * s.dp_shard + at.dp_shard) * s.cp + at.cp},
          {"fsdp", at.dp_shard * s.cp + at.cp},
          {"ep", flat % s.ep},
          {"efsdp", flat / s.ep},
          {"stage", rank % (mesh.size() / s.pp)},
          {"world", rank}};
      ASSERT_EQ(expected.size(), Mesh::axes().size());
      for (const auto& [axis, coordinate] : expected) {
        ASSERT_EQ(mesh.coordinate(axis, rank), coordinate)
            << axis << " of rank " << rank << " in " << mesh.describe();
      }
    }
  }
}

TEST(Mesh, AGroupHoldsTheRanksThatDifferAlongItsAxisOnlyAndGroupsCoverEachRankOnce) {
  // What must be equal within a group of each axis: the coordinates of the axes beside it.
  const std::map<std::string, std::vector<std::string>> beside = {
      {"pp", {"dp_replicate", "dp_shard", "cp", "tp"}},
      {"dp_replicate", {"pp", "dp_shard", "cp", "tp"}},
      {"dp_shard", {"pp", "dp_replicate", "cp", "tp"}},
      {"cp", {"pp", "dp_replicate", "dp_shard", "tp"}},
      {"tp", {"pp", "dp_replicate", "dp_shard", "cp"}},
      {"batch", {"pp", "cp", "tp"}},
      {"loss", {"pp", "tp"}},
      {"fsdp", {"pp", "dp_replicate", "tp"}},
      {"ep", {"pp", "dp_replicate", "efsdp"}},
      {"efsdp", {"pp", "dp_replicate", "ep"}},
      {"stage", {"pp"}},
      {"world", {}}};
  for (const auto& s : many_sizes()) {
    const Mesh mesh(world_of(s), s);
    for (const auto& axis : Mesh::axes()) {
      std::set<std::int64_t> seen;
      for (const auto& group : mesh.groups(axis)) {
        for (std::size_t i = 0; i < group.size(); ++i) {
          ASSERT_TRUE(seen.insert(group[i]).second) << axis << ": rank twice";
          ASSERT_EQ(mesh.coordinate(axis, group[i]), static_cast<std::int64_t>(i));
          ASSERT_EQ(mesh.group(axis, group[i]), group);
        }
        Ranks expected;
        for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
          bool same = true;
          for (const auto& other : beside.at(axis)) {
            same = same && mesh.coordinate(other, rank) == mesh.coordinate(other, group[0]);
          }
          if (same) expected.push_back(rank);
        }
        ASSERT_EQ(group, expected) << axis << " in " << mesh.describe();
      }
      ASSERT_EQ(static_cast<std::int64_t>(seen.size()), mesh.size()) << axis;
    }
  }
}

TEST(Mesh, GroupsOfAKnownLayoutAreThoseOfTorch) {
  // init_device_mesh((2, 2, 2), ("dp_replicate", "dp_shard", "tp")).
  const Mesh mesh(8, {.dp_replicate = 2, .dp_shard = 2, .tp = 2});
  EXPECT_EQ(mesh.groups("tp"), (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(mesh.groups("dp_shard"), (std::vector<Ranks>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.groups("dp_replicate"), (std::vector<Ranks>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.groups("batch"), (std::vector<Ranks>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(Mesh, DpShardOfMinusOneTakesWhatIsLeft) {
  const Mesh mesh(24, {.pp = 2, .dp_replicate = 3, .tp = 2});
  EXPECT_EQ(mesh.sizes().dp_shard, 2);
  EXPECT_EQ(mesh.describe(), "pp 2 · dp_replicate 3 · dp_shard 2 · tp 2");
  EXPECT_EQ(Mesh(1, {}).describe(), "1 rank");
}

std::string fault_of(std::int64_t world, const MeshSizes& sizes) {
  try {
    const Mesh mesh(world, sizes);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Mesh, FaultsNameTheDegrees) {
  EXPECT_THAT(fault_of(4, {.tp = 3}), HasSubstr("tp 3 does not divide the world of 4 ranks"));
  EXPECT_THAT(fault_of(2, {.tp = 4}), HasSubstr("tp 4 does not divide the world of 2 ranks"));
  EXPECT_THAT(fault_of(4, {.dp_replicate = 2, .dp_shard = 4}),
              HasSubstr("dp_replicate 2 · dp_shard 4 · cp 1 · tp 1 is not the world of 4 ranks"));
  EXPECT_THAT(fault_of(4, {.tp = 0}), HasSubstr("parallel.tp: 0 is not a degree"));
  EXPECT_THAT(fault_of(4, {.dp_shard = -2}), HasSubstr("parallel.dp_shard: -2"));
  EXPECT_THAT(fault_of(4, {.pp = 0, .cp = -1}),
              testing::AllOf(HasSubstr("parallel.pp: 0"), HasSubstr("parallel.cp: -1")));
  EXPECT_THAT(fault_of(4, {.dp_shard = 4, .ep = 3}),
              HasSubstr("parallel.ep: 3 does not divide dp_shard 4"));
  EXPECT_THAT(fault_of(0, {}), HasSubstr("a world of 0 ranks"));
}

TEST(Mesh, DegreesWhoseProductOverflowsAreAFaultLikeAnyOther) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(fault_of(8, {.dp_replicate = huge, .tp = huge}), HasSubstr("does not divide"));
  EXPECT_THAT(fault_of(8, {.dp_replicate = huge, .dp_shard = huge, .tp = huge}),
              HasSubstr("is not the world"));
}

TEST(Mesh, AnUnknownAxisIsAFaultThatListsTheAxes) {
  const Mesh mesh(2, {});
  try {
    mesh.degree("dp");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("dp_replicate, dp_shard"));
  }
}

}  // namespace
}  // namespace coeus
