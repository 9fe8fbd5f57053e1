#pragma once
#include <string>
#include <vector>

#include "launch/environment.h"

namespace coeus::launch {

// One machine's part of a run: start the ranks, forward signals, supervise, return the root cause's exit code (75 only if all ranks left with 75).
struct LaunchOptions {
  int num_nodes = 1, node_rank = 0, ranks_per_node = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;                         // 0: a free one, standalone only
  std::vector<std::string> program;            // argv of each rank
  std::string log_directory;                   // rank-N.log below it, empty: inherit; rank 0 is also shown
  double stop_seconds = 30;                    // after a failure or a signal: SIGTERM, then SIGKILL
};
int launch(const LaunchOptions& options, const Environment& environment);

}  // namespace coeus::launch
