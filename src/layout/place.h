#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "layout/plan.h"

namespace coeus {

// Where a rank stands on the axes that decide which part of a parameter it holds.
struct PlaceOptions {
  std::int64_t tp_degree = 1, tp = 0;
  std::int64_t ep_degree = 1, ep = 0;
  bool sequence_parallel = true;
};

// The model as one rank holds it: every parameter's parts, without the experts of other ranks.
// Sizes that do not divide are cut into pieces of ceil(n / degree). Parameters that no style cuts
// are copies; their gradients are summed where each tp rank sees other tokens or other heads.
ModelSpec place(const ModelSpec& model, const ParallelPlan& plan, const PlaceOptions& options);

// One line per parameter that two styles would cut over tp, naming both, per size that the degrees
// do not fit, and per layer of experts under tp without sequence parallel.
std::vector<std::string> check_place(const ModelSpec& model, const ParallelPlan& plan,
                                     const PlaceOptions& options);

// The layer `….experts` that holds this parameter, if an expert_parallel style covers it; else "".
std::string experts_layer(const ParallelPlan& plan, const std::string& parameter_fqn);

}  // namespace coeus
