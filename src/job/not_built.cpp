#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/tree.h"
#include "job/rules.h"
#include "job/sections.h"

namespace coeus::job {
namespace {

struct NotBuilt {
  const char* key;
  std::vector<std::string> accepted;  // as printed: the default, and off where that is another word
};

const NotBuilt kNotBuilt[] = {
    {"run.deterministic", {"off", "on"}},
    {"data.packing", {"concat", "documents"}},
    {"data.sources[].weight", {"null"}},  // in a list: checked by check_mixture
    {"data.sources[].repeats", {"null"}},
    {"evaluation.sources[].weight", {"null"}},
    {"evaluation.sources[].repeats", {"null"}},
    {"parallel.tp_overlap", {"auto", "off"}},
    {"execution.cuda_graph", {"auto", "off"}},
    {"execution.kernels.attention", {"auto"}},
    {"execution.kernels.norm", {"auto"}},
    {"precision.reduce", {"fp32"}},
    {"precision.master", {"fp32"}},
    {"precision.moments", {"fp32"}},
    {"precision.fp8", {"off"}},
    {"precision.fp8_scaling", {"delayed"}},
    {"precision.fp8_skip", {"[head]", "[]"}},
    {"checkpoint.async", {"false"}},
    {"guards.non_finite", {"stop", "skip"}},
    {"guards.spike", {"off"}},
    {"metrics.prometheus_port", {"null"}},
    {"profile.steps", {"[]"}},
    {"plugins", {"[]"}},
};

void check_mixture(const std::vector<SourceConfig>& sources, const char* list,
                   std::vector<RuleFault>& faults) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto refuse = [&](const char* key) {
      faults.push_back({fmt::format("{}.{}.{}", list, i, key), "mixtures are not built yet"});
    };
    if (sources[i].weight) refuse("weight");
    if (sources[i].repeats) refuse("repeats");
  }
}

}  // namespace

std::string accepted_so_far(const std::string& key) {
  for (const NotBuilt& entry : kNotBuilt) {
    if (key == entry.key) return fmt::format("{}", fmt::join(entry.accepted, ", "));
  }
  return "";
}

std::vector<RuleFault> check_not_built(const JobConfig& config) {
  const config::Value tree = write_tree(config, config::Mode::write);
  std::vector<RuleFault> faults;
  for (const NotBuilt& entry : kNotBuilt) {
    const config::Value* value = tree.at_path(entry.key);
    if (!value) continue;
    const std::string text = config::print_inline(*value);
    if (std::find(entry.accepted.begin(), entry.accepted.end(), text) != entry.accepted.end()) {
      continue;
    }
    faults.push_back({entry.key, fmt::format("{} is not built yet, only {}", text,
                                             fmt::join(entry.accepted, ", "))});
  }
  check_mixture(config.data.sources, "data.sources", faults);
  check_mixture(config.evaluation.sources, "evaluation.sources", faults);
  return faults;
}

}  // namespace coeus::job
