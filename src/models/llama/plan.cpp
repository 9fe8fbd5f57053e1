#include "models/llama/plan.h"

#include "models/plan_parts.h"

namespace coeus::models {

ParallelPlan llama_plan(const LlamaConfig&) {
  ParallelPlan plan = decoder_plan();
  return plan_swiglu(plan, "blocks.*.mlp");
}

}  // namespace coeus::models
