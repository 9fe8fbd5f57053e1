#pragma once
#include <map>
#include <string>
#include <vector>

#include "layout/segments.h"
#include "optim/config.h"

namespace coeus::optim {

// What the optimizer applies to a segment.
struct SegmentHyper {
  double weight_decay = 0, lr_scale = 1;
};

// For each segment's fqn: the first group whose pattern matches it, over the defaults (decay on
// segments of two or more dims). Throws ConfigError for a group that no segment falls to, naming
// near misses.
std::map<std::string, SegmentHyper> assign_groups(const OptimizerConfig& config,
                                                  const std::vector<Segment>& segments);

}  // namespace coeus::optim
