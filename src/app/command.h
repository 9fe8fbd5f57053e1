#pragma once
#include <string>
#include <vector>

namespace coeus::app {

using Arguments = std::vector<std::string>;

// A command of `coeus`: what --help lists, and what runs. `run` gets the words after the command's name and returns the exit code;
// it throws Error for what the user should read (printed once, to stderr, by main).
struct Command {
  std::string name, usage, summary;
  int (*run)(const Arguments& arguments);
};

}  // namespace coeus::app
