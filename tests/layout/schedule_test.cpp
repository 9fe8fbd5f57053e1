#include "layout/schedule/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "tests/layout/schedule_interpreter.h"

namespace coeus {
namespace {

using testing::all_schedules;
using ::testing::AllOf;
using testing::Delivery;
using testing::does_the_same;
using ::testing::HasSubstr;
using Kind = Action::Kind;

std::string title(const Schedule& s) {
  return fmt::format("{} p {} stages {} m {}", s.name, s.num_ranks, s.num_stages,
                     s.num_micro_batches);
}

TEST(Schedule, EveryOneIsProvedForOneToEightRanksAndOneToTwentyMicroBatches) {
  for (std::int64_t p = 1; p <= 8; ++p) {
    for (std::int64_t m = 1; m <= 20; ++m) {
      for (const Schedule& s : all_schedules(p, m)) {
        ASSERT_EQ(check_schedule(s), std::nullopt) << title(s);
        const Schedule full = with_transfers(s);
        ASSERT_EQ(check_transfers(full), std::nullopt) << title(s);
        ASSERT_TRUE(does_the_same(full, Delivery::by_lists)) << title(s);
      }
    }
  }
}

TEST(Schedule, ActionsAreOncePerStageAndMicroBatchAndAscendInEachKind) {
  for (const Schedule& s : all_schedules(4, 11)) {
    std::map<std::pair<Kind, std::int64_t>, std::int64_t> next;
    for (const auto& list : s.ranks) {
      for (const Action& a : list) {
        std::int64_t& expected = next[{a.kind, a.stage}];
        ASSERT_EQ(a.micro_batch, expected++) << title(s) << ": " << describe(a);
      }
    }
    ASSERT_EQ(static_cast<std::int64_t>(next.size()), 3 * s.num_stages) << title(s);
    for (const auto& entry : next) ASSERT_EQ(entry.second, 11) << title(s);
  }
}

TEST(Schedule, StagesLieAsTheScheduleSays) {
  using Ranks = std::vector<std::int64_t>;
  EXPECT_EQ(make_schedule("1f1b", 3, 1, 4).rank_of_stage, (Ranks{0, 1, 2}));
  EXPECT_EQ(make_schedule("interleaved_1f1b", 3, 2, 4).rank_of_stage, (Ranks{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(make_schedule("looped_bfs", 2, 3, 4).rank_of_stage, (Ranks{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(make_schedule("zbv", 3, 2, 4).rank_of_stage, (Ranks{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(make_schedule("dualpipe_v", 2, 2, 4).rank_of_stage, (Ranks{0, 1, 1, 0}));
}

std::string letters(const std::vector<Action>& list) {
  std::string text;
  for (const Action& a : list) {
    const char* kind = a.kind == Kind::forward ? "F" : a.kind == Kind::backward ? "B" : "W";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", kind, a.micro_batch);
  }
  return text;
}

TEST(Schedule, ListsOfTwoRanksAreThoseOfThePapers) {
  const auto gpipe = make_schedule("gpipe", 2, 1, 2);
  EXPECT_EQ(letters(gpipe.ranks[0]), "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(letters(gpipe.ranks[1]), "F0 F1 B0 W0 B1 W1");
  const auto one = make_schedule("1f1b", 2, 1, 3);
  EXPECT_EQ(letters(one.ranks[0]), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(letters(one.ranks[1]), "F0 B0 W0 F1 B1 W1 F2 B2 W2");
  const auto zero = make_schedule("zero_bubble", 2, 1, 3);
  EXPECT_EQ(letters(zero.ranks[0]), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(letters(zero.ranks[1]), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
}

TEST(Schedule, OnlyThoseWithASplitBackwardDelayWeights) {
  for (const char* name : {"gpipe", "1f1b"}) {
    EXPECT_FALSE(delays_weights(make_schedule(name, 4, 1, 8))) << name;
  }
  for (const char* name : {"interleaved_1f1b", "looped_bfs"}) {
    EXPECT_FALSE(delays_weights(make_schedule(name, 4, 2, 8))) << name;
  }
  EXPECT_TRUE(delays_weights(make_schedule("zero_bubble", 4, 1, 8)));
  EXPECT_TRUE(delays_weights(make_schedule("zbv", 4, 2, 8)));
  EXPECT_TRUE(delays_weights(make_schedule("dualpipe_v", 4, 2, 8)));
}

TEST(Schedule, StagesOfOneRankExchangeNothing) {
  for (const Schedule& s : all_schedules(1, 5)) {
    EXPECT_EQ(with_transfers(s).ranks, s.ranks) << title(s);
  }
  // At the turn of the V nothing is sent either: 4 borders of 5 stages' pairs, both ways.
  const Schedule v = make_schedule("zbv", 3, 2, 7);
  std::size_t sends = 0;
  for (const auto& list : with_transfers(v).ranks) {
    for (const Action& a : list) {
      sends += a.kind == Kind::send_forward || a.kind == Kind::send_backward ? 1 : 0;
      EXPECT_NE(a.peer, 3);
    }
  }
  EXPECT_EQ(sends, 4u * 2 * 7);
}

TEST(Schedule, TransfersLeaveTheOrderOfComputationsAsItWas) {
  for (const Schedule& s : all_schedules(4, 6)) {
    Schedule full = with_transfers(s);
    for (auto& list : full.ranks) std::erase_if(list, [](const Action& a) { return a.peer != -1; });
    EXPECT_EQ(full.ranks, s.ranks) << title(s);
  }
}

std::string fault_of(const std::string& name, std::int64_t p, std::int64_t v, std::int64_t m) {
  try {
    make_schedule(name, p, v, m);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Schedule, AWrongNumberOfStagesPerRankNamesWhatFits) {
  EXPECT_THAT(fault_of("1f1b", 4, 2, 8), AllOf(HasSubstr("1f1b puts one stage on each rank"),
                                               HasSubstr("is 2"), HasSubstr("interleaved_1f1b")));
  EXPECT_THAT(fault_of("gpipe", 4, 2, 8), HasSubstr("interleaved_1f1b"));
  EXPECT_THAT(fault_of("zero_bubble", 4, 2, 8), HasSubstr("zbv"));
  for (const char* name : {"zbv", "dualpipe_v"}) {
    EXPECT_THAT(fault_of(name, 4, 1, 8), HasSubstr("set pp_stages_per_rank to 2"));
    EXPECT_THAT(fault_of(name, 4, 3, 8), HasSubstr("set pp_stages_per_rank to 2"));
  }
}

TEST(Schedule, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(fault_of("1f2b", 2, 1, 2),
              AllOf(HasSubstr("'1f2b'"), HasSubstr("did you mean 1f1b"), HasSubstr("dualpipe_v")));
  EXPECT_EQ(schedule_names().size(), 7u);
}

TEST(Schedule, NumbersBeyondReasonAreFaults) {
  EXPECT_THAT(fault_of("1f1b", 0, 1, 2), HasSubstr("at least 1"));
  EXPECT_THAT(fault_of("1f1b", 2, 1, 0), HasSubstr("at least 1"));
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_THAT(fault_of("1f1b", huge, 1, 2), HasSubstr("more than"));
  EXPECT_THAT(fault_of("interleaved_1f1b", 4, huge, huge), HasSubstr("more than"));
  EXPECT_THAT(fault_of("1f1b", 4, 1, huge), HasSubstr("more than"));
}

}  // namespace
}  // namespace coeus
