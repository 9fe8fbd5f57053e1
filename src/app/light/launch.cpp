#include "app/light/commands.h"
#include "app/light/launch_config.h"
#include "base/error.h"

namespace coeus::app {
namespace {

// torchrun's rule where it helps: scripts and modules run under python3, anything else as it is.
std::vector<std::string> program_argv(const launch::LaunchFlags& flags) {
  std::vector<std::string> argv = flags.words;
  if (flags.module && flags.no_python)
    throw UsageError("--module needs python3, against --no-python");
  if (flags.module) argv.insert(argv.begin(), {"python3", "-u", "-m"});
  if (!flags.module && !flags.no_python && argv[0].ends_with(".py"))
    argv.insert(argv.begin(), {"python3", "-u"});
  return argv;
}

}  // namespace

int launch(const Arguments& arguments) {
  const launch::Environment environment = launch::process_environment();
  const launch::LaunchFlags flags = launch::parse_launch_flags(arguments, environment);
  if (flags.words.empty())
    throw UsageError("a CONFIG.yaml or a PROGRAM is missing (see coeus launch --help)");
  if (!flags.module && !flags.no_python && is_config(flags.words[0])) {
    const auto given = parse_config_arguments(flags.words, flags);
    return launch_config(given, launch::resolve_nodes(given.flags, environment), environment);
  }
  launch::LaunchOptions options = launch::resolve_nodes(flags, environment);
  options.ranks_per_node = launch::count_ranks(flags, 1, environment);
  options.program = program_argv(flags);
  return launch::launch(options, environment);
}

}  // namespace coeus::app
