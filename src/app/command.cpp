#include "app/command.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "app/build_info.h"
#include "base/error.h"
#include "config/suggest.h"

namespace coeus::app {
namespace {

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

std::string help(const std::string& program, const std::vector<Command>& commands) {
  std::string text =
      fmt::format("usage: {0} COMMAND [arguments]   ({0} COMMAND --help says more)\n", program);
  if (!commands.empty()) text += "\n";
  for (const auto& command : commands)
    text += fmt::format("  {:10} {}\n", command.name, command.summary);
  return text + "\n  --version  what this was built from\n";
}

void print(std::FILE* to, const std::string& text) {
  std::fputs(text.c_str(), to);
}

// One line per fault, each once.
void print_error(const std::string& what) {
  std::vector<std::string> printed;
  for (std::size_t at = 0; at < what.size();) {
    const std::size_t end = std::min(what.find('\n', at), what.size());
    const std::string line = what.substr(at, end - at);
    at = end + 1;
    if (line.empty() || std::count(printed.begin(), printed.end(), line)) continue;
    print(stderr, "coeus: error: " + line + "\n");
    printed.push_back(line);
  }
}

int run(const std::string& program, const std::vector<Command>& commands,
        const Arguments& arguments) {
  if (arguments.empty()) {
    print(stderr, help(program, commands));
    return static_cast<int>(ExitCode::usage);
  }
  const std::string& name = arguments[0];
  if (asks_for_help(name) || name == "help") {
    print(stdout, help(program, commands));
    return 0;
  }
  if (name == "--version") {
    print(stdout, describe_build(program));
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& command : commands) {
    names.push_back(command.name);
    if (command.name != name) continue;
    if (arguments.size() == 2 && asks_for_help(arguments[1])) {
      print(stdout, fmt::format("usage: {} {} {}\n\n{}\n{}", program, command.name, command.usage,
                                command.summary, command.details));
      return 0;
    }
    return command.run({arguments.begin() + 1, arguments.end()});
  }
  throw UsageError(fmt::format("unknown command \"{}\"{} (see {} --help)", name,
                               config::did_you_mean(name, names), program));
}

}  // namespace

int run_program(const std::string& program, const std::vector<Command>& commands,
                const Arguments& arguments) {
  try {
    return run(program, commands, arguments);
  } catch (const Error& error) {
    print_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    print_error(error.what());
    return static_cast<int>(ExitCode::failed);
  }
}

}  // namespace coeus::app
