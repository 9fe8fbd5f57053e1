#pragma once
#include "layout/plan.h"
#include "models/qwen3_moe/config.h"

namespace coeus::models {

ParallelPlan qwen3_moe_plan(const Qwen3MoeConfig& config);

}  // namespace coeus::models
