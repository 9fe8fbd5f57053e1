#pragma once
#include "layout/plan.h"
#include "models/mixtral/config.h"

namespace coeus::models {

ParallelPlan mixtral_plan(const MixtralConfig& config);

}  // namespace coeus::models
