#pragma once
#include "layout/plan.h"
#include "models/deepseek_v3/config.h"

namespace coeus::models {

ParallelPlan deepseek_v3_plan(const DeepseekV3Config& config);

}  // namespace coeus::models
