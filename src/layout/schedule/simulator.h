#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "layout/schedule/schedule.h"

namespace coeus {

// What one micro-batch costs on one stage. Any unit of time.
struct StageCost {
  double forward = 1, backward = 1, weight = 1;
  double transfer = 0;  // of its output to the next stage, and of that one's dX back to it
  // Held from the end of forward to the end of backward, and from there to the end of weight.
  std::int64_t forward_bytes = 0, backward_bytes = 0;
};
using StageCosts = std::vector<StageCost>;  // one a stage

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

// Peaks count what is held of all the rank's stages, as micro-batches of the whole rank: one of
// its v stages counts 1/v.
struct SimulatedRank {
  std::vector<TimedAction> actions;  // in the order of the list
  double busy = 0, bubble = 0;       // together the total
  double peak_forward_to_backward = 0, peak_backward_to_weight = 0, peak_forward_to_weight = 0;
  std::int64_t peak_bytes = 0;
};

struct Simulation {
  std::string schedule;
  std::int64_t num_stages = 0, num_micro_batches = 0;
  double total = 0;
  std::vector<SimulatedRank> ranks;
  double bubble_share() const;  // of all ranks' time
};

// Each rank runs its list in order, each action as soon as its inputs are there; transfers cost
// time but keep no rank from computing. Expects a schedule that check_schedule proved.
Simulation simulate(const Schedule& compute_only, const StageCosts& costs);

}  // namespace coeus
