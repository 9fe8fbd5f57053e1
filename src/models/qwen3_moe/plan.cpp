#include "models/qwen3_moe/plan.h"

#include "models/plan_parts.h"

namespace coeus::models {

ParallelPlan qwen3_moe_plan(const Qwen3MoeConfig&) {
  return decoder_plan().style("blocks.*.moe", expert_parallel());
}

}  // namespace coeus::models
