#include <fmt/format.h>

#include "base/error.h"
#include "config/suggest.h"
#include "job/builtin.h"
#include "job/job_config.h"

namespace coeus {

std::vector<std::string> builtin_config_names() {
  std::vector<std::string> names;
  for (const job::BuiltinConfig& entry : job::builtin_configs()) names.emplace_back(entry.name);
  return names;
}

std::string builtin_config_text(const std::string& name) {
  for (const job::BuiltinConfig& entry : job::builtin_configs()) {
    if (name == entry.name) return entry.text;
  }
  throw UsageError(fmt::format("there is no built-in configuration '{}'{}", name,
                               config::did_you_mean(name, builtin_config_names())));
}

}  // namespace coeus
