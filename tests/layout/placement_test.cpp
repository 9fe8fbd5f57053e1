#include "layout/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"

namespace coeus {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = Placement::Kind;
using Index = std::vector<std::int64_t>;

TensorLayout layout_of(Index shape, std::vector<std::int64_t> degrees,
                       std::vector<Placement> placements) {
  TensorLayout layout{.shape = std::move(shape), .axes = {}, .placements = std::move(placements)};
  const char* names[] = {"a", "b", "c", "d"};
  for (std::size_t k = 0; k < degrees.size(); ++k) layout.axes.push_back({names[k], degrees[k]});
  return layout;
}

// Every index of a tensor, row-major.
std::vector<Index> all_indices(const Index& shape) {
  std::vector<Index> all = {{}};
  for (std::int64_t size : shape) {
    std::vector<Index> longer;
    for (const Index& index : all) {
      for (std::int64_t i = 0; i < size; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Whether a rank holds an element, by the rule for one element: an axis of degree n deals out
// blocks of ceil(size/n), and the next axis deals out each block.
bool holds(const TensorLayout& layout, const Coordinates& at, const Index& index) {
  Index inside = index, size = layout.shape;
  for (std::size_t k = 0; k < layout.axes.size(); ++k) {
    if (layout.placements[k].kind != Kind::shard) continue;
    const auto d = static_cast<std::size_t>(layout.placements[k].dim);
    const std::int64_t n = layout.axes[k].degree;
    const std::int64_t block = size[d] / n + (size[d] % n == 0 ? 0 : 1);
    const std::int64_t owner = inside[d] / block;
    if (owner != at[k]) return false;
    inside[d] -= owner * block;
    size[d] = std::min(block, size[d] - owner * block);
  }
  return true;
}

bool contains(const TensorPart& part, const Index& index) {
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (index[d] < part.offset[d] || index[d] >= part.offset[d] + part.shape[d]) return false;
  }
  return true;
}

class RandomLayouts {
 public:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Placement placement(std::int64_t num_dims, bool may_be_partial) {
    const std::int64_t kind = pick(0, may_be_partial ? 3 : 2);
    return kind == 0 ? replicate() : kind == 3 ? partial() : shard(pick(0, num_dims - 1));
  }
  std::pair<TensorLayout, TensorLayout> two() {
    Index shape(static_cast<std::size_t>(pick(1, 3))),
        degrees(static_cast<std::size_t>(pick(1, 4)));
    for (auto& size : shape) size = pick(0, 7);
    for (auto& degree : degrees) degree = pick(1, degrees.size() > 2 ? 2 : 5);
    const auto num_dims = static_cast<std::int64_t>(shape.size());
    std::vector<Placement> from, to;
    for (std::size_t k = 0; k < degrees.size(); ++k) {
      from.push_back(placement(num_dims, true));
      to.push_back(placement(num_dims, from.back().kind == Kind::partial));
    }
    return {layout_of(shape, degrees, from), layout_of(shape, degrees, to)};
  }

 private:
  std::mt19937_64 random_{7};
};

TEST(Placement, RanksHoldTheCeilingEachUntilTheElementsRunOut) {
  for (std::int64_t size = 0; size < 20; ++size) {
    for (std::int64_t degree = 1; degree < 9; ++degree) {
      std::int64_t left = size;
      for (std::int64_t c = 0; c < degree; ++c) {
        const ShardRange range = shard_range(size, degree, c);
        ASSERT_EQ(range.begin, size - left);
        ASSERT_EQ(range.size, std::min(left, (size + degree - 1) / degree));
        left -= range.size;
      }
      ASSERT_EQ(left, 0) << size << " over " << degree;
    }
  }
}

TEST(Placement, APartHoldsExactlyTheElementsDealtToItsRank) {
  RandomLayouts random;
  int num_nested = 0;
  for (int i = 0; i < 300; ++i) {
    const TensorLayout layout = random.two().first;
    std::set<std::int64_t> dims;
    for (const Placement& p : layout.placements) {
      if (p.kind == Kind::shard) num_nested += !dims.insert(p.dim).second;
    }
    for (std::int64_t rank = 0; rank < num_ranks(layout); ++rank) {
      const Coordinates at = coordinates_of(layout, rank);
      const TensorPart part = part_at(layout, at);
      std::int64_t count = 0;
      for (const Index& index : all_indices(layout.shape)) {
        ASSERT_EQ(contains(part, index), holds(layout, at, index))
            << describe(layout) << ", rank " << rank;
        count += contains(part, index);
      }
      ASSERT_EQ(part.num_elements(), count);
    }
  }
  EXPECT_GT(num_nested, 50);  // two axes on one dim
}

TEST(Placement, TheOutermostAxisCutsFirst) {
  // 10 rows: 5 | 5 over a, then 3 | 2 over b.
  const TensorLayout layout = layout_of({10}, {2, 2}, {shard(0), shard(0)});
  Index offsets, sizes;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const TensorPart part = part_at(layout, coordinates_of(layout, rank));
    offsets.push_back(part.offset[0]);
    sizes.push_back(part.shape[0]);
  }
  EXPECT_EQ(offsets, (Index{0, 3, 5, 8}));
  EXPECT_EQ(sizes, (Index{3, 2, 3, 2}));
}

// The elements of the whole tensor that two parts share, counted one by one.
TEST(Placement, TheIntersectionOfTwoPartsIsWhatBothHold) {
  RandomLayouts random;
  for (int i = 0; i < 200; ++i) {
    const auto [from, to] = random.two();
    for (std::int64_t rank = 0; rank < num_ranks(from); ++rank) {
      const TensorPart a = part_at(from, coordinates_of(from, rank));
      const TensorPart b = part_at(to, coordinates_of(to, num_ranks(to) - 1 - rank));
      const TensorPart both = intersect(a, b);
      for (const Index& index : all_indices(from.shape)) {
        ASSERT_EQ(contains(both, index), contains(a, index) && contains(b, index));
      }
    }
  }
}

// For one element and one rank that wants it: the coordinates along the summed axes of the sources
// that hold it. Each must occur once.
std::multiset<Coordinates> summands_of(const Redistribution& how, const Coordinates& target,
                                       const Index& index) {
  std::multiset<Coordinates> found;
  for (std::int64_t rank = 0; rank < num_ranks(how.exchange_from); ++rank) {
    const Coordinates source = coordinates_of(how.exchange_from, rank);
    if (!is_source(how, source, target) || !holds(how.exchange_from, source, index)) continue;
    Coordinates summand;
    for (std::size_t k = 0; k < source.size(); ++k) {
      const auto kind = how.exchange_to.placements[k].kind;
      if (how.exchange_from.placements[k].kind != Kind::partial) continue;
      if (kind == Kind::shard) summand.push_back(source[k]);
      if (kind == Kind::partial) {
        EXPECT_EQ(source[k], target[k]);
      }
    }
    found.insert(summand);
  }
  return found;
}

TEST(Placement, TheSourcesOfARankHoldEachElementItWantsOnceForEachSummand) {
  RandomLayouts random;
  for (int i = 0; i < 200; ++i) {
    const auto [from, to] = random.two();
    const Redistribution how = decompose(from, to);
    for (std::int64_t rank = 0; rank < num_ranks(from); ++rank) {
      const Coordinates target = coordinates_of(from, rank);
      for (const Index& index : all_indices(from.shape)) {
        if (!holds(how.exchange_to, target, index)) continue;
        const auto found = summands_of(how, target, index);
        ASSERT_EQ(static_cast<std::int64_t>(found.size()), how.num_summands)
            << describe(from) << " -> " << describe(to);
        ASSERT_EQ(std::set<Coordinates>(found.begin(), found.end()).size(), found.size());
      }
    }
  }
}

// An all-reduce of `count` elements over n ranks, element by element: its owner receives it from
// all others, everyone else receives the sum.
std::int64_t all_reduce_by_element(std::int64_t count, std::int64_t n, std::int64_t rank) {
  std::int64_t received = 0;
  for (std::int64_t e = 0; e < count; ++e) {
    const std::int64_t owner = e / (count / n + (count % n == 0 ? 0 : 1));
    received += owner == rank ? n - 1 : 1;
  }
  return received;
}

std::int64_t received_by_element(const TensorLayout& from, const TensorLayout& to,
                                 const Coordinates& target) {
  const Redistribution how = decompose(from, to);
  std::int64_t received = 0, n = 1, rank = 0, held = 0, wanted = 0;
  for (const Index& index : all_indices(from.shape)) {
    held += holds(from, target, index);
    wanted += holds(to, target, index);
    if (!holds(how.exchange_to, target, index)) continue;
    for (std::int64_t r = 0; r < num_ranks(from); ++r) {
      const Coordinates source = coordinates_of(from, r);
      received += source != target && is_source(how, source, target) &&
                  holds(how.exchange_from, source, index);
    }
  }
  for (std::size_t k = 0; k < from.axes.size(); ++k) {
    if (from.placements[k].kind != Kind::partial || to.placements[k].kind != Kind::replicate)
      continue;
    n *= from.axes[k].degree;
    rank = rank * from.axes[k].degree + target[k];
  }
  const bool first = how.order == Redistribution::Order::all_reduce_first;
  return received + all_reduce_by_element(first ? held : wanted, n, rank);
}

TEST(Placement, TheElementsReceivedAreThoseCountedOneByOne) {
  RandomLayouts random;
  for (int i = 0; i < 300; ++i) {
    const auto [from, to] = random.two();
    for (std::int64_t rank = 0; rank < num_ranks(from); ++rank) {
      const Coordinates at = coordinates_of(from, rank);
      ASSERT_EQ(received_elements(from, to, at), received_by_element(from, to, at))
          << describe(from) << " -> " << describe(to) << ", rank " << rank;
    }
  }
}

std::int64_t received(const Placement& from, const Placement& to, std::int64_t rank,
                      Index shape = {8, 12}) {
  return received_elements(layout_of(shape, {4}, {from}), layout_of(shape, {4}, {to}), {rank});
}

TEST(Placement, TheElementsReceivedOverOneAxisAreTheKnownOnes) {
  EXPECT_EQ(received(shard(0), replicate(), 1), 72);    // 3/4 of 96
  EXPECT_EQ(received(partial(), shard(1), 2), 72);      // (n−1)/n
  EXPECT_EQ(received(partial(), replicate(), 3), 144);  // 2·(n−1)/n
  EXPECT_EQ(received(shard(0), shard(1), 0), 18);       // 24, a quarter of it held
  EXPECT_EQ(received(replicate(), shard(0), 0), 0);
  EXPECT_EQ(received(partial(), partial(), 0), 0);
  EXPECT_EQ(received(partial(), shard(0), 0, {5, 3}), 18);  // rows 2 | 2 | 1 | 0
  EXPECT_EQ(received(partial(), shard(0), 2, {5, 3}), 9);
  EXPECT_EQ(received(partial(), shard(0), 3, {5, 3}), 0);
  EXPECT_EQ(received(shard(0), replicate(), 3, {5, 3}), 15);
  EXPECT_EQ(received(partial(), replicate(), 3, {5, 3}), 3 * 3 + 12);  // flat parts 4 | 4 | 4 | 3
}

TEST(Placement, AnAllReduceIsDoneOnTheSmallerSide) {
  const Index shape = {8, 8};
  const auto order = [&](const Placement& a, const Placement& b) {
    return decompose(layout_of(shape, {2, 2}, {partial(), a}),
                     layout_of(shape, {2, 2}, {replicate(), b}))
        .order;
  };
  EXPECT_EQ(order(replicate(), shard(0)), Redistribution::Order::exchange_first);
  EXPECT_EQ(order(shard(0), replicate()), Redistribution::Order::all_reduce_first);
}

TEST(Placement, TextNamesPlacementShapeAndAxes) {
  EXPECT_EQ(to_string(shard(1)), "Shard(1)");
  EXPECT_EQ(to_string(replicate()), "Replicate");
  EXPECT_EQ(to_string(partial()), "Partial");
  EXPECT_EQ(describe(layout_of({8, 16}, {2, 4}, {shard(0), partial()})),
            "[8, 16] as Shard(0) over a 2, Partial over b 4");
}

std::string fault_of(const TensorLayout& from, const TensorLayout& to) {
  try {
    check_redistribute(from, to, "blocks.0: redistribute");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Placement, AMismatchNamesOperationTensorAxesAndFault) {
  const TensorLayout good = layout_of({8, 4}, {2, 2}, {shard(0), partial()});
  EXPECT_EQ(fault_of(good, layout_of({8, 4}, {2, 2}, {shard(1), replicate()})), "");
  EXPECT_THAT(fault_of(good, layout_of({8, 5}, {2, 2}, {shard(1), replicate()})),
              AllOf(HasSubstr("blocks.0: redistribute: a tensor of [8, 4] as Shard(0) over a 2, "
                              "Partial over b 2 cannot become [8, 5] as Shard(1) over a 2"),
                    HasSubstr("the shapes differ")));
  EXPECT_THAT(fault_of(good, layout_of({8, 4}, {2, 2}, {shard(2), replicate()})),
              HasSubstr("Shard(2) over a: the tensor has 2 dims"));
  EXPECT_THAT(fault_of(good, layout_of({8, 4}, {2, 2}, {shard(-1), replicate()})),
              HasSubstr("Shard(-1) over a"));
  EXPECT_THAT(fault_of(good, layout_of({8, 4}, {2, 2}, {partial(), replicate()})),
              HasSubstr("Shard(0) cannot become Partial over a"));
  EXPECT_THAT(fault_of(layout_of({8}, {2}, {replicate()}), layout_of({8}, {2}, {partial()})),
              HasSubstr("Replicate cannot become Partial over a"));
  EXPECT_THAT(fault_of(good, layout_of({8, 4}, {2, 4}, {shard(1), replicate()})),
              HasSubstr("the axes differ"));
  EXPECT_THAT(fault_of(good, layout_of({8, 4}, {2, 2}, {shard(1)})),
              HasSubstr("1 placements for 2 axes"));
  EXPECT_THAT(fault_of(layout_of({8}, {0}, {replicate()}), layout_of({8}, {0}, {shard(0)})),
              HasSubstr("axis a of degree 0"));
}

}  // namespace
}  // namespace coeus
