#include "layout/schedule/simulator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <regex>

#include "layout/schedule/svg.h"
#include "tests/layout/schedule_interpreter.h"

namespace coeus {
namespace {

using testing::all_schedules;
using ::testing::HasSubstr;
using Kind = Action::Kind;

Simulation run(const std::string& name, std::int64_t p, std::int64_t v, std::int64_t m,
               const StageCost& cost = {}) {
  const Schedule schedule = make_schedule(name, p, v, m);
  return simulate(schedule, StageCosts(static_cast<std::size_t>(p * v), cost));
}

// Of every rank; F, B and W of a whole rank, so that one of its v stages costs 1/v of them.
void expect_bubble(const std::string& name, std::int64_t p, std::int64_t v, std::int64_t m,
                   const StageCost& whole, double bubble) {
  const auto part = static_cast<double>(v);
  const auto s = run(name, p, v, m,
                     {.forward = whole.forward / part,
                      .backward = whole.backward / part,
                      .weight = whole.weight / part});
  for (const auto& rank : s.ranks) {
    EXPECT_NEAR(rank.bubble, bubble, 1e-9) << name << " p " << p << " v " << v << " m " << m;
  }
}

TEST(Simulator, BubblesAreThoseOfThePapers) {
  const StageCost unit, uneven{.forward = 4, .backward = 5, .weight = 3};
  for (std::int64_t p = 1; p <= 8; ++p) {
    const auto ends = static_cast<double>(p - 1);
    for (std::int64_t m = 1; m <= 20; ++m) {
      for (const StageCost& c : {unit, uneven}) {
        const double one_way = ends * (c.forward + c.backward);
        expect_bubble("gpipe", p, 1, m, c, one_way);
        expect_bubble("1f1b", p, 1, m, c, one_way);
        if (m < p) continue;
        expect_bubble("zero_bubble", p, 1, m, c, ends * (c.forward + c.backward - c.weight));
        for (std::int64_t v : {1, 2, 3}) {
          expect_bubble("looped_bfs", p, v, m, c, one_way / static_cast<double>(v));
          expect_bubble("interleaved_1f1b", p, v, m, c, one_way / static_cast<double>(v));
        }
      }
      if (m >= 2 * p - 1) expect_bubble("zbv", p, 2, m, unit, ends / 2);
      if (m >= 2 * p) expect_bubble("dualpipe_v", p, 2, m, unit, ends / 2);
    }
  }
}

TEST(Simulator, PeaksOfHeldMicroBatchesAreThoseOfThePapers) {
  for (std::int64_t p = 1; p <= 8; ++p) {
    for (std::int64_t m = 1; m <= 20; ++m) {
      const auto peak = [&](const std::string& name, std::int64_t v, std::int64_t rank) {
        return run(name, p, v, m).ranks[static_cast<std::size_t>(rank)].peak_forward_to_weight;
      };
      const auto all = static_cast<double>(m), ranks = static_cast<double>(p);
      for (std::int64_t r = 0; r < p; ++r) {
        EXPECT_EQ(peak("gpipe", 1, r), all);
        EXPECT_EQ(peak("looped_bfs", 2, r), all);
        EXPECT_EQ(peak("1f1b", 1, r), std::min(all, static_cast<double>(p - r)));
        EXPECT_EQ(peak("zero_bubble", 1, r), std::min(all, ranks));
        if (m >= 2 * p - 1) {
          EXPECT_EQ(peak("zbv", 2, r), ranks);
        }
        if (m >= 2 * p) {
          EXPECT_EQ(peak("dualpipe_v", 2, r), ranks + 0.5);
        }
        for (std::int64_t v : {2, 3}) {
          if (m % p != 0) continue;
          const auto held = static_cast<double>(2 * (p - r - 1) + (v - 1) * p + 1);
          EXPECT_DOUBLE_EQ(peak("interleaved_1f1b", v, r),
                           std::min(all, held / static_cast<double>(v)))
              << "p " << p << " m " << m << " rank " << r;
        }
      }
    }
  }
}

TEST(Simulator, RunsEachListInItsOrderAndNothingBeforeItsInputs) {
  const StageCost cost{.forward = 2, .backward = 3, .weight = 1, .transfer = 0.25};
  for (const Schedule& s : all_schedules(4, 9)) {
    const auto sim = simulate(s, StageCosts(static_cast<std::size_t>(s.num_stages), cost));
    std::map<std::tuple<Kind, std::int64_t, std::int64_t>, double> ends;
    for (std::size_t rank = 0; rank < sim.ranks.size(); ++rank) {
      double free = 0;
      ASSERT_EQ(sim.ranks[rank].actions.size(), s.ranks[rank].size());
      for (std::size_t i = 0; i < s.ranks[rank].size(); ++i) {
        const TimedAction& t = sim.ranks[rank].actions[i];
        ASSERT_EQ(t.action, s.ranks[rank][i]) << s.name;
        ASSERT_GE(t.start, free) << s.name;
        ends[{t.action.kind, t.action.stage, t.action.micro_batch}] = free = t.end;
      }
      ASSERT_LE(free, sim.total);
      ASSERT_DOUBLE_EQ(sim.ranks[rank].busy + sim.ranks[rank].bubble, sim.total);
    }
    for (const auto& rank : sim.ranks) {
      for (const auto& t : rank.actions) {
        const auto [kind, stage, i, peer] = t.action;
        if (kind == Kind::weight) {
          ASSERT_GE(t.start, ends.at({Kind::backward, stage, i}));
        } else if (kind == Kind::backward) {
          ASSERT_GE(t.start, ends.at({Kind::forward, stage, i}));
        }
        const std::int64_t from = stage + (kind == Kind::forward ? -1 : 1);
        if (kind == Kind::weight || from < 0 || from == s.num_stages) continue;
        const bool travels = s.rank_of_stage[static_cast<std::size_t>(stage)] !=
                             s.rank_of_stage[static_cast<std::size_t>(from)];
        ASSERT_GE(t.start, ends.at({kind, from, i}) + (travels ? cost.transfer : 0)) << s.name;
      }
    }
  }
}

TEST(Simulator, TheOrderIsThatOfTheListsWithTransfers) {
  for (const Schedule& s : all_schedules(4, 9)) {
    const auto sim = simulate(s, StageCosts(static_cast<std::size_t>(s.num_stages)));
    const Schedule full = with_transfers(s);
    for (std::size_t rank = 0; rank < full.ranks.size(); ++rank) {
      std::vector<Action> simulated, executed;
      for (const auto& t : sim.ranks[rank].actions) simulated.push_back(t.action);
      for (const auto& a : full.ranks[rank]) {
        if (a.peer == -1) executed.push_back(a);
      }
      EXPECT_EQ(simulated, executed) << s.name;
    }
  }
}

TEST(Simulator, TransfersDelayButKeepNobodyBusy) {
  // F 1, sent 0.5, F 1, B 2, sent 0.5, B 2, W 3.
  const auto s = run("1f1b", 2, 1, 1, {.forward = 1, .backward = 2, .weight = 3, .transfer = 0.5});
  EXPECT_DOUBLE_EQ(s.total, 10);
  EXPECT_DOUBLE_EQ(s.ranks[0].busy, 6);
  EXPECT_DOUBLE_EQ(s.ranks[0].bubble, 4);
  EXPECT_DOUBLE_EQ(s.bubble_share(), 0.4);
  // Both stages on one rank: nothing travels.
  EXPECT_DOUBLE_EQ(run("looped_bfs", 1, 2, 1, {.transfer = 100}).total, 6);
}

TEST(Simulator, ADelayedWeightCostsItsOwnBytes) {
  const StageCost kept{.forward_bytes = 10, .backward_bytes = 10};
  const StageCost recomputed{.forward_bytes = 1, .backward_bytes = 10};
  // Rank 1 of two, F0 B0 F1 B1 W0 …: two micro-batches owe their weights.
  EXPECT_EQ(run("zero_bubble", 2, 1, 4, kept).ranks[1].peak_bytes, 20);
  EXPECT_EQ(run("zero_bubble", 2, 1, 4, recomputed).ranks[1].peak_bytes, 20);
  EXPECT_EQ(run("1f1b", 2, 1, 4, recomputed).ranks[1].peak_bytes, 10);
  EXPECT_EQ(run("1f1b", 2, 1, 4, recomputed).ranks[0].peak_bytes, 11);
  const auto rank = run("zero_bubble", 2, 1, 4, kept).ranks[1];
  EXPECT_EQ(rank.peak_forward_to_backward, 1);
  EXPECT_EQ(rank.peak_backward_to_weight, 2);
  EXPECT_EQ(rank.peak_forward_to_weight, 2);
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Simulator, ThePictureHasABoxForEachAction) {
  Schedule schedule = make_schedule("zbv", 3, 2, 6);
  schedule.name = "<mine & yours>";
  const std::string svg = draw_svg(simulate(schedule, StageCosts(6)));
  EXPECT_EQ(count(svg, "<title>"), 3u * 6 * 6);
  for (const char* tag : {"text", "svg", "title"}) {
    EXPECT_EQ(count(svg, fmt::format("<{}", tag)), count(svg, fmt::format("</{}>", tag))) << tag;
  }
  EXPECT_THAT(svg, HasSubstr("&lt;mine &amp; yours&gt;: 3 ranks, 6 stages, 6 micro-batches"));
  EXPECT_THAT(svg, HasSubstr("<title>backward of micro-batch 5 on stage 3: "));
  EXPECT_THAT(svg, HasSubstr(">rank 2</text>"));
  EXPECT_FALSE(std::regex_search(svg, std::regex("nan|inf")));
}

}  // namespace
}  // namespace coeus
