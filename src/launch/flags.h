#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launch/launcher.h"

namespace coeus::launch {

// torchrun's flags, as given; what was not given is empty.
struct LaunchFlags {
  std::optional<int> num_nodes = {}, node_rank = {}, master_port = {};
  std::optional<std::string> ranks_per_node = {};  // a number, auto, cpu or gpu
  std::optional<std::string> master_address = {}, log_directory = {}, run_id = {};
  std::vector<int> shown_local_ranks = {};
  bool standalone = false, no_python = false, module = false;
  std::vector<std::string> words =
      {};  // what follows the flags: CONFIG or PROGRAM, and its arguments
};

// Both spellings (--nproc-per-node, --nproc_per_node), --flag VALUE and --flag=VALUE, and PET_* for
// what the command line leaves out. Throws UsageError for a flag that is unknown, malformed, or
// known to torchrun but not supported here, naming it.
LaunchFlags parse_launch_flags(const std::vector<std::string>& arguments,
                               const Environment& environment);

// One flag at arguments[at], if it is one of ours: applies it and moves `at` behind it.
bool take_launch_flag(const std::vector<std::string>& arguments, std::size_t& at,
                      LaunchFlags& flags);
void read_launch_variables(const Environment& environment, LaunchFlags& flags);

// The lines of --help.
std::string launch_flags_help();

// Ranks on this node: what the flag says, else `fallback`.
int count_ranks(const LaunchFlags& flags, int fallback, const Environment& environment);

// Nodes, this node's rank and the master: flags, else an srun step with one task a node, else this
// machine alone. Throws UsageError with both values where a flag contradicts the step.
LaunchOptions resolve_nodes(const LaunchFlags& flags, const Environment& environment);

}  // namespace coeus::launch
