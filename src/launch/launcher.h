#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launch/environment.h"

namespace coeus::launch {

// One machine's part of a run: start the ranks, forward signals, supervise, return the root cause's
// exit code (75 only if all ranks left with 75, 128+n for signal n).
struct LaunchOptions {
  int num_nodes = 1, node_rank = 0, ranks_per_node = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;               // 0: a free one, one node only
  std::string run_id = "none";       // TORCHELASTIC_RUN_ID
  std::vector<std::string> program;  // argv of each rank; argv[0] is looked up in PATH
  std::string log_directory;  // attempt-K/rank-N.log below it; empty: ranks inherit out and err
  std::vector<int> shown_local_ranks;  // shown beside being logged; empty: rank 0 of the run
  double stop_seconds = 30;            // after a failure: SIGTERM, then SIGKILL
  double signal_stop_seconds = 30;     // the same after a SIGTERM or SIGINT to the launcher
  // blocked: the program unblocks SIGTERM, SIGINT and SIGUSR1 once it handles them, so that one
  // that comes before that is not lost and kills nobody.
  enum class StopSignals { as_found, blocked } stop_signals = StopSignals::as_found;
  int out = 1, err = 2;  // where shown ranks and the launcher's own lines go
};

// Blocks until all ranks have left. One launch at a time in a process, from its main thread.
int launch(const LaunchOptions& options, const Environment& environment);

}  // namespace coeus::launch
