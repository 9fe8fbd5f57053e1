#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "layout/schedule/schedule.h"
#include "tests/layout/schedule_interpreter.h"

// Each mutant is judged twice: by the checker, and by an interpreter that only runs it. They must
// agree; a mutant that still does the same is equivalent and not counted.
namespace coeus {
namespace {

using ::testing::AllOf;
using testing::Delivery;
using testing::does_the_same;
using ::testing::HasSubstr;
using Kind = Action::Kind;
using Random = std::mt19937_64;

constexpr int kWanted = 50;

std::size_t below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}

bool is_send(const Action& a) {
  return a.kind == Kind::send_forward || a.kind == Kind::send_backward;
}
bool is_receive(const Action& a) {
  return a.kind == Kind::receive_forward || a.kind == Kind::receive_backward;
}

// A random action that `wanted` accepts.
struct Spot {
  std::size_t rank, index;
};
Spot find_spot(const Schedule& s, Random& random, bool (*wanted)(const Action&)) {
  while (true) {
    const std::size_t rank = below(random, s.ranks.size());
    const std::size_t index = below(random, s.ranks[rank].size());
    if (wanted(s.ranks[rank][index])) return {rank, index};
  }
}

void swap_two(Schedule& s, Random& random) {
  auto& list = s.ranks[below(random, s.ranks.size())];
  const std::size_t i = below(random, list.size() - 1);
  const std::size_t j = std::min(list.size() - 1, i + 1 + below(random, 6));
  std::swap(list[i], list[j]);
}
template <bool (*wanted)(const Action&)>
void drop(Schedule& s, Random& random) {
  const Spot spot = find_spot(s, random, wanted);
  auto& list = s.ranks[spot.rank];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(spot.index));
}
template <bool (*wanted)(const Action&)>
void repeat(Schedule& s, Random& random) {
  const Spot spot = find_spot(s, random, wanted);
  auto& list = s.ranks[spot.rank];
  const std::size_t at = spot.index + 1 + below(random, list.size() - spot.index);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), Action(list[spot.index]));
}
bool is_transfer(const Action& a) {
  return is_send(a) || is_receive(a);
}
void change_peer(Schedule& s, Random& random) {
  const Spot spot = find_spot(s, random, is_transfer);
  Action& a = s.ranks[spot.rank][spot.index];
  const auto p = static_cast<std::size_t>(s.num_ranks);
  a.peer =
      static_cast<std::int64_t>((static_cast<std::size_t>(a.peer) + 1 + below(random, p - 1)) % p);
}
bool is_any(const Action&) {
  return true;
}

struct Mutation {
  const char* name;
  void (*apply)(Schedule& s, Random& random);
};

// Judges mutants of each schedule until `kWanted` were rejected.
void reject_mutants(const Mutation& mutation, Delivery delivery) {
  Random random(20240501);
  for (const Schedule& built : testing::all_schedules(4, 6)) {
    const Schedule original = delivery == Delivery::by_lists ? with_transfers(built) : built;
    int rejected = 0;
    for (int tried = 0; rejected < kWanted; ++tried) {
      ASSERT_LT(tried, 100 * kWanted) << "too few mutants of " << built.name << " are wrong";
      Schedule mutant = original;
      mutation.apply(mutant, random);
      const auto fault =
          delivery == Delivery::by_lists ? check_transfers(mutant) : check_schedule(mutant);
      const bool same = does_the_same(mutant, delivery);
      ASSERT_EQ(!fault.has_value(), same)
          << mutation.name << " in " << built.name << ": " << fault.value_or("passed");
      if (!fault) continue;
      ASSERT_THAT(*fault, AllOf(HasSubstr("rank"), HasSubstr("micro-batch")));
      ++rejected;
    }
  }
}

TEST(ScheduleChecker, RejectsSwappedDependentActions) {
  reject_mutants({"swap", swap_two}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsDroppedSends) {
  reject_mutants({"dropped send", drop<is_send>}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsDroppedReceives) {
  reject_mutants({"dropped receive", drop<is_receive>}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsDoubledSends) {
  reject_mutants({"doubled send", repeat<is_send>}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsDoubledReceives) {
  reject_mutants({"doubled receive", repeat<is_receive>}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsWrongPeers) {
  reject_mutants({"wrong peer", change_peer}, Delivery::by_lists);
}
TEST(ScheduleChecker, RejectsSwappedDroppedAndDoubledComputations) {
  reject_mutants({"swap", swap_two}, Delivery::by_hand);
  reject_mutants({"dropped action", drop<is_any>}, Delivery::by_hand);
  reject_mutants({"doubled action", repeat<is_any>}, Delivery::by_hand);
}

// Two stages, two micro-batches.
Schedule small() {
  return make_schedule("gpipe", 2, 1, 2);
}
std::string fault_after(const std::function<void(Schedule&)>& change) {
  Schedule s = small();
  change(s);
  return check_schedule(s).value_or("proved");
}
std::string transfer_fault_after(const std::function<void(Schedule&)>& change) {
  Schedule s = with_transfers(small());
  change(s);
  return check_transfers(s).value_or("proved");
}

TEST(ScheduleChecker, CounterExamplesSayWhichActionsDisagree) {
  EXPECT_EQ(fault_after([](Schedule& s) { std::swap(s.ranks[1][0], s.ranks[1][2]); }),
            "rank 1: backward of micro-batch 0 on stage 1 (action 0) comes before forward of "
            "micro-batch 0 on stage 1 (action 2), which it needs");
  EXPECT_EQ(fault_after([](Schedule& s) { std::swap(s.ranks[0][0], s.ranks[0][1]); }),
            "rank 0: forward of micro-batch 1 on stage 0 (action 0) comes before forward of "
            "micro-batch 0 on stage 0 (action 1): micro-batches must ascend");
  EXPECT_EQ(fault_after([](Schedule& s) { s.ranks[0].pop_back(); }),
            "rank 0 lacks weight gradients of micro-batch 1 on stage 0");
  EXPECT_EQ(fault_after([](Schedule& s) { s.ranks[0].push_back(s.ranks[0][0]); }),
            "rank 0 has forward of micro-batch 0 on stage 0 twice, as actions 0 and 6");
  EXPECT_EQ(fault_after([](Schedule& s) { std::swap(s.ranks[0], s.ranks[1]); }),
            "rank 0: forward of micro-batch 0 on stage 1: stage 1 is on rank 1");
  EXPECT_EQ(fault_after([](Schedule& s) { s.rank_of_stage[1] = 2; }),
            "stage 1 is given to rank 2, but there are 2 ranks");
  EXPECT_THAT(fault_after([](Schedule& s) { s.ranks[0][0].micro_batch = 2; }),
              HasSubstr("there are 2 stages and 2 micro-batches"));
}

TEST(ScheduleChecker, TransferCounterExamplesNameBothEnds) {
  const auto find = [](std::vector<Action>& list, Kind kind) {
    return std::find_if(list.begin(), list.end(), [&](const Action& a) { return a.kind == kind; });
  };
  EXPECT_THAT(
      transfer_fault_after(
          [&](Schedule& s) { s.ranks[1].erase(find(s.ranks[1], Kind::receive_forward)); }),
      AllOf(HasSubstr("rank 1 lacks receive of micro-batch 0's input of stage 1 from rank 0"),
            HasSubstr("rank 0 waits for ever in send of micro-batch 0's output of stage 0 "
                      "to rank 1 (action 1)")));
  EXPECT_EQ(
      transfer_fault_after([&](Schedule& s) { find(s.ranks[0], Kind::send_forward)->peer = 0; }),
      "rank 0: send of micro-batch 0's output of stage 0 to rank 0: wrong peer, stage 1 is on rank "
      "1");
}

// Actions of stage r on rank r, as in a file: "F0 B0 W0".
std::vector<Action> one_stage(std::int64_t stage, const std::string& text) {
  std::vector<Action> list;
  for (std::size_t at = 0; at + 1 < text.size(); at += 3) {
    const Kind kind = text[at] == 'F'   ? Kind::forward
                      : text[at] == 'B' ? Kind::backward
                                        : Kind::weight;
    list.push_back({kind, stage, text[at + 1] - '0'});
  }
  return list;
}

TEST(ScheduleChecker, ADeadlockIsShownByItsShortestRing) {
  Schedule s = make_schedule("gpipe", 3, 1, 2);
  s.ranks[0] = one_stage(0, "F0 F1 B0 W0 B1 W1");
  s.ranks[1] = one_stage(1, "F0 B0 W0 F1 B1 W1");
  s.ranks[2] = one_stage(2, "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(check_schedule(s).value_or("proved"),
            "deadlock: rank 1 cannot run backward of micro-batch 0 on stage 1 before rank 2 runs "
            "backward of micro-batch 0 on stage 2, which it has behind forward of micro-batch 1 on "
            "stage 2; rank 2 cannot run forward of micro-batch 1 on stage 2 before rank 1 runs "
            "forward of micro-batch 1 on stage 1, which it has behind backward of micro-batch 0 on "
            "stage 1");
  s.ranks[2] = one_stage(2, "F0 B0 W0 F1 B1 W1");
  EXPECT_EQ(check_schedule(s), std::nullopt);
}

TEST(ScheduleChecker, TwoRanksThatBothSendFirstAreADeadlock) {
  Schedule s = make_schedule("1f1b", 2, 1, 2);
  const auto compute = [&](std::size_t rank, Kind kind, std::int64_t i) {
    s.ranks[rank].push_back({kind, static_cast<std::int64_t>(rank), i});
  };
  const auto transfer = [&](std::size_t rank, Kind kind, std::int64_t i) {
    s.ranks[rank].push_back({kind, static_cast<std::int64_t>(rank), i, rank == 0 ? 1 : 0});
  };
  s.ranks = {{}, {}};
  for (std::int64_t i : {0, 1}) {
    compute(0, Kind::forward, i);
    transfer(0, Kind::send_forward, i);
  }
  for (std::int64_t i : {0, 1}) {
    transfer(0, Kind::receive_backward, i);
    compute(0, Kind::backward, i);
    compute(0, Kind::weight, i);
    transfer(1, Kind::receive_forward, i);
    compute(1, Kind::forward, i);
    compute(1, Kind::backward, i);
    transfer(1, Kind::send_backward, i);
    compute(1, Kind::weight, i);
  }
  EXPECT_THAT(check_transfers(s).value_or("proved"),
              AllOf(HasSubstr("deadlock: rank 0 cannot run send of micro-batch 1's output of stage "
                              "0 to rank 1 before rank 1 runs receive of micro-batch 1's input of "
                              "stage 1 from rank 0, which it has behind send of micro-batch 0's dX "
                              "of stage 1 to rank 0; "),
                    HasSubstr("rank 1 cannot run send of micro-batch 0's dX of stage 1")));
  EXPECT_FALSE(does_the_same(s, Delivery::by_lists));
  // In the other order each meets the other.
  std::swap(s.ranks[1][3], s.ranks[1][5]);
  std::swap(s.ranks[1][4], s.ranks[1][5]);
  EXPECT_EQ(check_transfers(s), std::nullopt);
}

}  // namespace
}  // namespace coeus
