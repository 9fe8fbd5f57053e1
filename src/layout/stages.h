#pragma once
#include <cstdint>
#include <vector>

#include "layout/plan.h"
#include "layout/segments.h"

namespace coeus {

// One pipeline stage: layers [begin, end) of ModelSpec::layers.
struct StageRange {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const StageRange&, const StageRange&) = default;
};

// FLOPs per token of one layer, as a schedule spends them: backward forms dX only.
struct LayerFlops {
  double forward = 0, backward = 0, weight = 0;
  double total() const { return forward + backward + weight; }
};
// Of each layer: 2 per element of its matrices forward, backward and for the weights; attention,
// where a layer has heads, as TorchTitan counts it. An embedding looks up and costs nothing; the
// head, tied or not, does all its work forward (nn/ops/linear_cross_entropy.cpp). The sum of totals
// is ModelSpec::flops_per_token but for vectors (norm gains).
std::vector<LayerFlops> layer_flops(const ModelSpec& model, std::int64_t sequence_length);

// Cuts the chain into stages so that the costliest is as cheap as can be, and among those the
// others as even as can be. Cuts lie before the layers that the plan names as stages and after the
// last of them (before any layer where the plan names none, but never between norm and head, which
// share a unit). Throws ConfigError where there are more stages than that allows.
std::vector<StageRange> split_stages(const ModelSpec& model, const ParallelPlan& plan,
                                     std::int64_t num_stages, std::int64_t sequence_length);

}  // namespace coeus
