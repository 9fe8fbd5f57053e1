#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/segments.h"

namespace coeus {

// How a layer is placed on the mesh. Plain data: parallel/styles.cpp maps the kind to the pass that
// does it.
enum class StyleKind {
  column_parallel,
  row_parallel,
  head_parallel,
  vocab_parallel,
  sequence_parallel,
  expert_parallel,
  context_parallel
};
struct Style {
  StyleKind kind;
};
inline Style column_parallel() {
  return {StyleKind::column_parallel};
}
inline Style row_parallel() {
  return {StyleKind::row_parallel};
}
inline Style head_parallel() {
  return {StyleKind::head_parallel};
}
inline Style vocab_parallel() {
  return {StyleKind::vocab_parallel};
}
inline Style sequence_parallel() {
  return {StyleKind::sequence_parallel};
}
inline Style expert_parallel() {
  return {StyleKind::expert_parallel};
}
inline Style context_parallel() {
  return {StyleKind::context_parallel};
}

// Patterns over layer names (* = within one dotted part, ** = across parts) -> what happens to the
// layers that match.
struct ParallelPlan {
  struct StyleRule {
    std::string pattern;
    Style style;
  };
  std::vector<StyleRule> styles;
  std::vector<std::string> units;       // each matching layer is a unit of its own
  std::vector<std::string> recomputes;  // layers that may be recomputed
  std::vector<std::string> stages;      // layers between which a pipeline may be cut

  ParallelPlan& style(std::string pattern, Style s);
  ParallelPlan& unit(std::string pattern);
  ParallelPlan& recompute(std::string pattern);
  ParallelPlan& stage(std::string pattern);
};

// True when the whole name matches: * is [^.]*, ** is .*, all else is literal.
bool matches(std::string_view pattern, std::string_view name);

// At most three names (numbers as *) that the pattern may have meant, nearest first.
std::vector<std::string> near_misses(const std::string& pattern,
                                     const std::vector<std::string>& names);

// One line per pattern that matches no layer, naming near misses. Empty: the plan fits.
std::vector<std::string> check_plan(const ParallelPlan& plan,
                                    const std::vector<std::string>& layer_names);

// Which parameters are gathered and reduced together, in chain order.
struct UnitSpec {
  std::string name;
  std::vector<std::string> layers;  // chain layers that use it
  std::vector<ParameterSpec> parameters;
  bool experts = false;  // spread over efsdp instead of fsdp
};
// One unit per layer that holds parameters, named after it; the last two layers of a chain (norm,
// head) share one ("norm+head") unless a unit pattern matches one of them; each tied weight is a
// unit of its own, named after it, of all layers that use it; so are the experts of a layer.
std::vector<UnitSpec> plan_units(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace coeus
