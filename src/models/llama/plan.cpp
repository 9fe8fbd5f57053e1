#include "models/llama/plan.h"

namespace coeus::models {

ParallelPlan llama_plan(const LlamaConfig&) {
  return ParallelPlan{}
      .style("embed", vocab_parallel())
      .style("blocks.*.norm*", sequence_parallel())
      .style("blocks.*.attention", head_parallel())
      .style("blocks.*.attention.core", context_parallel())
      .style("blocks.*.mlp.gate_up", column_parallel())
      .style("blocks.*.mlp.down_proj", row_parallel())
      .style("norm", sequence_parallel())
      .style("head", vocab_parallel())
      .unit("blocks.*")
      .recompute("blocks.*")
      .stage("blocks.*");
}

}  // namespace coeus::models
