#include "optim/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "layout/plan.h"

namespace coeus::optim {
namespace {

std::string unused_group(const OptimizerConfig& config, std::size_t index,
                         const std::vector<Segment>& segments) {
  const std::string& pattern = config.groups[index].match;
  std::vector<std::string> names;
  for (const auto& segment : segments) names.push_back(segment.fqn);
  std::string reason = "matches no segment of the model";
  if (std::any_of(names.begin(), names.end(), [&](const auto& n) { return matches(pattern, n); })) {
    reason = "is unused: earlier groups take every segment that it matches";
  } else if (const auto near = near_misses(pattern, names); !near.empty()) {
    reason += fmt::format("; did you mean {}?", fmt::join(near, " or "));
  }
  return fmt::format("optimizer.groups.{}.match: {} {}", index, pattern, reason);
}

}  // namespace

std::map<std::string, SegmentHyper> assign_groups(const OptimizerConfig& config,
                                                  const std::vector<Segment>& segments) {
  std::map<std::string, SegmentHyper> assigned;
  std::vector<bool> used(config.groups.size(), false);
  for (const auto& segment : segments) {
    SegmentHyper hyper{.weight_decay = segment.shape.size() >= 2 ? config.weight_decay : 0.0};
    for (std::size_t i = 0; i < config.groups.size(); ++i) {
      if (!matches(config.groups[i].match, segment.fqn)) continue;
      hyper.weight_decay = config.groups[i].weight_decay.value_or(hyper.weight_decay);
      hyper.lr_scale = config.groups[i].lr_scale.value_or(1.0);
      used[i] = true;
      break;
    }
    assigned[segment.fqn] = hyper;
  }
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) faults.push_back(unused_group(config, i, segments));
  }
  if (!faults.empty()) throw ConfigError(fmt::format("{}", fmt::join(faults, "\n")));
  return assigned;
}

}  // namespace coeus::optim
