#pragma once
#include <coeus/nn/model.h>

#include <map>
#include <string>

#include "comm/connect.h"
#include "layout/plan.h"
#include "parallel/config.h"

namespace coeus::parallel {

struct StyleOptions {
  ParallelPlan plan;
  bool sequence_parallel = true;
  CpStyle cp_style = CpStyle::ring;
  ModelSpec placed;  // what this rank holds
};

// Attaches and replaces what each layer's style needs on the axes that are larger than one.
// Collective over the world: opens the axes' communicators.
void apply_styles(nn::Model& model, const StyleOptions& options, comm::Groups& groups);

}  // namespace coeus::parallel
