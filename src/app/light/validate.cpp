#include <fmt/format.h>

#include <cstdio>

#include "app/light/commands.h"
#include "base/error.h"
#include "job/job_config.h"

namespace coeus::app {
namespace {

struct ValidateArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool print = false;
};

ValidateArguments parse(const Arguments& arguments) {
  ValidateArguments parsed;
  for (const std::string& word : arguments) {
    if (word == "--print") {
      parsed.print = true;
    } else if (word.find('=') != std::string::npos && !word.starts_with("--device=")) {
      parsed.overrides.push_back(word);
    } else if (word.starts_with("--device")) {
      throw UsageError("--device: device-dependent checks are not built yet");
    } else if (word.starts_with("-")) {
      throw UsageError(fmt::format("{}: unknown flag; there is --print", word));
    } else if (!parsed.config.empty()) {
      throw UsageError(fmt::format("{}: after the configuration come key.sub=value", word));
    } else {
      parsed.config = word;
    }
  }
  if (parsed.config.empty()) throw UsageError("validate: name a file or a built-in configuration");
  return parsed;
}

}  // namespace

int validate(const Arguments& arguments) {
  const ValidateArguments parsed = parse(arguments);
  const LoadedJob job = load_job(parsed.config, parsed.overrides);
  if (parsed.print) std::fputs(job.annotated.c_str(), stdout);
  std::vector<std::string> warnings = job.warnings;
  for (std::string& missing : missing_inputs(job.config)) warnings.push_back(std::move(missing));
  for (const std::string& warning : warnings) {
    std::fputs(fmt::format("coeus: warning: {}\n", warning).c_str(), stderr);
  }
  if (!parsed.print) std::fputs(fmt::format("{}: valid\n", parsed.config).c_str(), stdout);
  return static_cast<int>(ExitCode::finished);
}

}  // namespace coeus::app
