#include "models/deepseek_v3/plan.h"

#include "models/plan_parts.h"

namespace coeus::models {

// A pattern has to match something, so only what this config has is named.
ParallelPlan deepseek_v3_plan(const DeepseekV3Config& c) {
  ParallelPlan plan = decoder_plan();
  if (c.num_dense_layers > 0) plan_swiglu(plan, "blocks.*.mlp");
  if (c.has_experts(c.num_layers - 1)) plan.style("blocks.*.moe", expert_parallel());
  return plan;
}

}  // namespace coeus::models
