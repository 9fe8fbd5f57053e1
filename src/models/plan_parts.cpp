#include "models/plan_parts.h"

namespace coeus::models {

ParallelPlan decoder_plan() {
  return ParallelPlan{}
      .style("embed", vocab_parallel())
      .style("blocks.*.norm*", sequence_parallel())
      .style("blocks.*.attention", head_parallel())
      .style("blocks.*.attention.core", context_parallel())
      .style("norm", sequence_parallel())
      .style("head", vocab_parallel())
      .unit("blocks.*")
      .recompute("blocks.*")
      .stage("blocks.*");
}

ParallelPlan& plan_swiglu(ParallelPlan& plan, const std::string& pattern) {
  return plan.style(pattern + ".gate_up", column_parallel())
      .style(pattern + ".down_proj", row_parallel());
}

}  // namespace coeus::models
