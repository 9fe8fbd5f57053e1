#pragma once
#include "layout/plan.h"
#include "models/llama/config.h"

namespace coeus::models {

ParallelPlan llama_plan(const LlamaConfig& config);

}  // namespace coeus::models
