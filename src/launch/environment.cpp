#include "launch/environment.h"

#include <cstdlib>

#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

World detect_world(const Environment& environment) {
  std::string incomplete;
  for (const auto find : {find_torchrun, find_openmpi, find_srun, find_pmi}) {
    const Finding finding = find(environment);
    if (finding.world) return *finding.world;
    if (incomplete.empty()) incomplete = finding.incomplete;
  }
  // Somebody meant a world of several ranks: each of them training alone would be the worst answer.
  if (!incomplete.empty()) throw UsageError(incomplete);
  return *find_alone(environment).world;
}

}  // namespace coeus::launch
