#pragma once
#include <string>
#include <vector>

namespace coeus::app {

using Arguments = std::vector<std::string>;

// A command of `coeus`: what --help lists, and what runs. `run` gets the words after the command's
// name and returns the exit code; it throws Error for what the user should read (printed once, to
// stderr, by run_program). A lone --help is answered from usage and summary.
struct Command {
  std::string name, usage, summary;
  int (*run)(const Arguments& arguments);
  std::string details = {};  // further lines of its --help
};

// The whole of a main: --help, --version, the command named, errors as `coeus: error: …` lines on
// stderr, and the exit code.
int run_program(const std::string& program, const std::vector<Command>& commands,
                const Arguments& arguments);

}  // namespace coeus::app
