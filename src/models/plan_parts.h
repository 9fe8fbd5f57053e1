#pragma once
#include "layout/plan.h"

namespace coeus::models {

// What every decoder here has in common: vocabulary, norms, attention, and a unit a block. The MLP
// or the experts are the model's own to add.
ParallelPlan decoder_plan();
// A nn::SwiGlu whose layer names match `pattern`.
ParallelPlan& plan_swiglu(ParallelPlan& plan, const std::string& pattern);

}  // namespace coeus::models
