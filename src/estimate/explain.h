#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "estimate/memory.h"
#include "job/job_config.h"
#include "layout/schedule/simulator.h"
#include "layout/stages.h"

namespace coeus::estimate {

struct StageExplanation {
  std::int64_t stage = 0;
  StageRange layers;
  std::string first_layer, last_layer;
  std::int64_t num_parameters = 0;  // of the whole stage, before tp and fsdp divide them
  LayerFlops flops_per_token;       // recompute counted to backward
};

// The ranks of one pipeline coordinate: all alike.
struct RankExplanation {
  std::vector<StageExplanation> stages;
  std::int64_t num_parameters = 0;  // a weight that stages of the rank share counts once
  MemoryBytes memory;               // of the rank with the largest parts, without activations
  double bubble = 0;                // share of the step without optimizer
  double peak_forward_to_backward = 0, peak_forward_to_weight = 0;  // held micro-batches
};

struct Explanation {
  std::string model, layout;
  std::int64_t num_ranks = 0, num_parameters = 0;
  std::int64_t num_micro_batches = 0, micro_batch_tokens = 0;
  bool delays_weights = false;
  Simulation simulation;  // in FLOPs per token of a stage
  std::vector<RankExplanation> pipeline_ranks;
  std::vector<std::string> notes;
};

// What each pipeline rank of that world does and holds. Throws ConfigError where the layout, the
// stages or the schedule do not fit.
Explanation explain(const JobConfig& config, std::int64_t world_size);

// How that run keeps weights and gradients.
MemoryOptions memory_options(const JobConfig& config);

// The smallest world that the degrees allow: dp_shard -1 counts as the least that ep divides.
std::int64_t smallest_world(const ParallelConfig& parallel);

}  // namespace coeus::estimate
