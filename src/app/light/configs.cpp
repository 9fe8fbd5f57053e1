#include <fmt/format.h>

#include <cstdio>

#include "app/light/commands.h"
#include "base/error.h"
#include "job/job_config.h"

namespace coeus::app {
namespace {

// The comment that a file begins with says what it is.
std::string first_comment(const std::string& text) {
  if (!text.starts_with("# ")) return "";
  return text.substr(2, text.find('\n') - 2);
}

void list_configs() {
  for (const std::string& name : builtin_config_names()) {
    const std::string line =
        fmt::format("{:<16} {}\n", name, first_comment(builtin_config_text(name)));
    std::fputs(line.c_str(), stdout);
  }
}

}  // namespace

int configs(const Arguments& arguments) {
  const std::string verb = arguments.empty() ? "ls" : arguments[0];
  if (verb == "ls" && arguments.size() <= 1) {
    list_configs();
  } else if (verb == "show" && arguments.size() == 2) {
    std::fputs(builtin_config_text(arguments[1]).c_str(), stdout);
  } else if (verb == "fields" && arguments.size() == 1) {
    std::fputs(configuration_reference().c_str(), stdout);
  } else {
    throw UsageError("configs: one of ls, show NAME, fields");
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace coeus::app
