#include "app/light/config_arguments.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "job/job_config.h"

namespace coeus::app {

ConfigArguments parse_config_arguments(const Arguments& words, launch::LaunchFlags flags) {
  ConfigArguments parsed{.config = {}, .overrides = {}, .flags = std::move(flags)};
  for (std::size_t at = 0; at < words.size();) {
    const std::string& word = words[at];
    const bool is_flag = word.size() > 1 && word[0] == '-';
    if (is_flag && launch::take_launch_flag(words, at, parsed.flags)) continue;
    if (word.find('=') != std::string::npos && word.rfind("-=", 0) != 0)
      parsed.overrides.push_back(word);
    else if (is_flag)
      throw UsageError(fmt::format("{}: unknown flag", word));
    else if (parsed.config.empty())
      parsed.config = word;
    else
      throw UsageError(
          fmt::format("\"{}\": after the configuration, only key.sub=value is expected", word));
    ++at;
  }
  if (parsed.config.empty())
    throw UsageError("a configuration is missing: a file or a built-in name");
  if (parsed.flags.module || parsed.flags.no_python)
    throw UsageError("--module and --no-python are for a PROGRAM, not for a configuration");
  return parsed;
}

bool is_config(const std::string& word) {
  for (const char* ending : {".yaml", ".yml"})
    if (word.ends_with(ending)) return true;
  const auto names = builtin_config_names();
  return !files::exists(word) && std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace coeus::app
