#include "models/mixtral/plan.h"

#include "models/plan_parts.h"

namespace coeus::models {

ParallelPlan mixtral_plan(const MixtralConfig&) {
  return decoder_plan().style("blocks.*.moe", expert_parallel());
}

}  // namespace coeus::models
