#pragma once
#include <functional>
#include <string>
#include <vector>

#include "config/value.h"

namespace coeus::config {

struct Source {
  std::string name, text;
};
// Finds what `base:` or the command line names; `from` is the file that names it, empty for the
// command line. Throws Error.
using FindSource = std::function<Source(const std::string& name, const std::string& from)>;

struct TreeOptions {
  FindSource find;
  // Keys of which giving one takes back the others of the layers below, e.g. {"training.steps",
  // "training.tokens"}.
  std::vector<std::vector<std::string>> exclusive;
};

// One file with all that it inherits by `base:`.
Value load_tree(const Source& source, const TreeOptions& options, Report& report);

// a.b.0.c=value, with or without leading dashes; the value is YAML.
void apply_override(Value& tree, const std::string& override, const TreeOptions& options,
                    Report& report);

// Calls `leaf` for each value that is no map, with its path; an empty map is no leaf.
void for_each_leaf(const Value& tree,
                   const std::function<void(const std::string& path, const Value& value)>& leaf);

// On one line.
std::string print_inline(const Value& value);
// As YAML. The notes, if there are any, stand behind each value.
using Note = std::function<std::string(const std::string& path, const Value& value)>;
std::string print_tree(const Value& tree, const Note& note = {});

}  // namespace coeus::config
