#include "app/light/launch_config.h"

#include <algorithm>

#include "app/light/exec.h"
#include "base/error.h"
#include "job/job_config.h"

namespace coeus::app {
namespace {

// A rank that was asked to stop is writing a checkpoint; only one that hangs needs an end.
constexpr double kSaveSeconds = 600;
// After a failure the others have nothing left to do; one that does not leave hangs or was stopped.
constexpr double kStopSeconds = 4;

}  // namespace

int launch_config(const ConfigArguments& given, launch::LaunchOptions nodes,
                  const launch::Environment& environment) {
  nodes.ranks_per_node = given.flags.ranks_per_node
                             ? launch::count_ranks(given.flags, 1, environment)
                             : std::max(1, launch::count_gpus(environment));
  const LoadedJob job = load_job(given.config, given.overrides,
                                 {.world_size = nodes.num_nodes * nodes.ranks_per_node});
  if (job.config.comm.ranks == RankKind::threads)
    throw UsageError(
        "comm.ranks: threads: such ranks live in one process; use `coeus train CONFIG --nproc N`");
  if (nodes.log_directory.empty()) nodes.log_directory = job.config.run.directory + "/logs";
  nodes.signal_stop_seconds = kSaveSeconds;
  nodes.stop_seconds = kStopSeconds;
  nodes.stop_signals = launch::LaunchOptions::StopSignals::blocked;
  Arguments words = {"train", given.config};
  words.insert(words.end(), given.overrides.begin(), given.overrides.end());
  nodes.program = heavy_command(words);
  return launch::launch(nodes, environment);
}

}  // namespace coeus::app
