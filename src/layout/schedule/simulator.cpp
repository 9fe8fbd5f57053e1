#include "layout/schedule/simulator.h"

#include <algorithm>

#include "base/error.h"
#include "layout/schedule/actions.h"

namespace coeus {
namespace {

using schedules::ActionMap;
using schedules::rank_of;
using Kind = Action::Kind;

constexpr double kNotYet = -1;

const StageCost& cost_of(const StageCosts& costs, std::int64_t stage) {
  return costs[static_cast<std::size_t>(stage)];
}

double duration(const StageCosts& costs, const Action& a) {
  const StageCost& cost = cost_of(costs, a.stage);
  if (a.kind == Kind::forward) return cost.forward;
  return a.kind == Kind::backward ? cost.backward : cost.weight;
}

class Clock {
 public:
  Clock(const Schedule& schedule, const StageCosts& costs)
      : schedule_(schedule), costs_(costs), ends_(schedule, kNotYet) {}

  // When all inputs of `a` are on its rank; nullopt while one has not run.
  std::optional<double> ready(const Action& a) const {
    double time = 0;
    for (const Action& input : schedules::inputs_of(schedule_, a)) {
      if (ends_[input] == kNotYet) return std::nullopt;
      double there = ends_[input];
      if (rank_of(schedule_, input.stage) != rank_of(schedule_, a.stage)) {
        there += cost_of(costs_, std::min(input.stage, a.stage)).transfer;
      }
      time = std::max(time, there);
    }
    return time;
  }

  // Runs what can run of a rank's list; whether anything could.
  bool advance(const std::vector<Action>& list, SimulatedRank& rank) {
    const std::size_t before = rank.actions.size();
    while (rank.actions.size() < list.size()) {
      const Action& a = list[rank.actions.size()];
      const auto inputs = ready(a);
      if (!inputs) break;
      const double free = rank.actions.empty() ? 0 : rank.actions.back().end;
      const double start = std::max(free, *inputs), end = start + duration(costs_, a);
      rank.actions.push_back({a, start, end});
      rank.busy += end - start;
      ends_[a] = end;
    }
    return rank.actions.size() > before;
  }

 private:
  const Schedule& schedule_;
  const StageCosts& costs_;
  ActionMap<double> ends_;
};

// What a rank holds depends on the order of its list alone.
void measure_held(const StageCosts& costs, double num_stages, SimulatedRank& rank) {
  std::int64_t forwards = 0, backwards = 0, weights = 0, bytes = 0;
  const auto raise = [&](double& peak, std::int64_t count) {
    peak = std::max(peak, static_cast<double>(count) / num_stages);
  };
  for (const TimedAction& timed : rank.actions) {
    const StageCost& cost = cost_of(costs, timed.action.stage);
    if (timed.action.kind == Kind::forward) {
      ++forwards;
      bytes += cost.forward_bytes;
    } else if (timed.action.kind == Kind::backward) {
      ++backwards;
      bytes += cost.backward_bytes - cost.forward_bytes;
    } else {
      ++weights;
      bytes -= cost.backward_bytes;
    }
    raise(rank.peak_forward_to_backward, forwards - backwards);
    raise(rank.peak_backward_to_weight, backwards - weights);
    raise(rank.peak_forward_to_weight, forwards - weights);
    rank.peak_bytes = std::max(rank.peak_bytes, bytes);
  }
}

}  // namespace

double Simulation::bubble_share() const {
  double bubble = 0;
  for (const auto& rank : ranks) bubble += rank.bubble;
  return total > 0 ? bubble / (total * static_cast<double>(ranks.size())) : 0;
}

Simulation simulate(const Schedule& schedule, const StageCosts& costs) {
  COEUS_ASSERT(static_cast<std::int64_t>(costs.size()) == schedule.num_stages,
               "{} costs for {} stages", costs.size(), schedule.num_stages);
  Simulation result{.schedule = schedule.name,
                    .num_stages = schedule.num_stages,
                    .num_micro_batches = schedule.num_micro_batches,
                    .total = 0,
                    .ranks = std::vector<SimulatedRank>(schedule.ranks.size())};
  Clock clock(schedule, costs);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
      moved = clock.advance(schedule.ranks[rank], result.ranks[rank]) || moved;
    }
  }
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    SimulatedRank& simulated = result.ranks[rank];
    COEUS_ASSERT(simulated.actions.size() == schedule.ranks[rank].size(),
                 "schedule {}: rank {} is stuck; it was not checked", schedule.name, rank);
    if (!simulated.actions.empty()) {
      result.total = std::max(result.total, simulated.actions.back().end);
    }
    const auto num_stages = std::count(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(),
                                       static_cast<std::int64_t>(rank));
    measure_held(costs, static_cast<double>(std::max<std::ptrdiff_t>(num_stages, 1)), simulated);
  }
  for (SimulatedRank& rank : result.ranks) rank.bubble = result.total - rank.busy;
  return result;
}

}  // namespace coeus
