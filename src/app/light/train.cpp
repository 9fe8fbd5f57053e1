#include "app/light/commands.h"
#include "app/light/exec.h"
#include "app/light/launch_config.h"
#include "base/error.h"
#include "job/job_config.h"

namespace coeus::app {
namespace {

void refuse_node_flags(const launch::LaunchFlags& flags) {
  if (flags.num_nodes || flags.node_rank || flags.master_address || flags.master_port)
    throw UsageError("train starts ranks on this machine only; for several use `coeus launch`");
}

// A flag, or idle GPUs, against the number of ranks that somebody else has started here.
void check_local_size(const launch::LaunchFlags& flags, const World& world,
                      const launch::Environment& environment) {
  if (flags.ranks_per_node) {
    const int asked = launch::count_ranks(flags, 1, environment);
    if (asked != world.local_size)
      throw UsageError(fmt::format(
          "--nproc-per-node {} against {} rank{} that {} started on this node; `coeus launch` "
          "starts ranks of its own",
          asked, world.local_size, world.local_size == 1 ? "" : "s", world.source));
    return;
  }
  const int gpus = world.source == "srun" ? launch::count_gpus(environment) : 0;
  if (gpus > world.local_size)
    throw UsageError(fmt::format(
        "srun started {0} task{1} on this node, and {2} GPUs are visible: use "
        "--ntasks-per-node={2}, "
        "or `srun coeus launch` with one task a node, or say --nproc-per-node {0} if it is meant",
        world.local_size, world.local_size == 1 ? "" : "s", gpus));
}

Arguments heavy_words(const ConfigArguments& given) {
  Arguments words = {"train", given.config};
  words.insert(words.end(), given.overrides.begin(), given.overrides.end());
  return words;
}

// Ranks as threads: one process, any number of them.
[[noreturn]] void run_threads(const ConfigArguments& given,
                              const launch::Environment& environment) {
  const int ranks = launch::count_ranks(given.flags, 1, environment);
  load_job(given.config, given.overrides, {.world_size = ranks});
  Arguments words = heavy_words(given);
  words.insert(words.end(), {"--nproc", fmt::to_string(ranks)});
  exec_heavy(words);
}

}  // namespace

int train(const Arguments& arguments) {
  const launch::Environment environment = launch::process_environment();
  ConfigArguments given = parse_config_arguments(arguments);
  refuse_node_flags(given.flags);
  const World world = launch::detect_world(environment);
  const LoadedJob job = load_job(given.config, given.overrides);
  if (job.config.comm.ranks == RankKind::threads) {
    if (world.size > 1)
      throw UsageError(fmt::format("comm.ranks: threads: against {} processes that {} started",
                                   world.size, world.source));
    run_threads(given, environment);
  }
  if (world.source != "alone") {
    check_local_size(given.flags, world, environment);
    load_job(given.config, given.overrides, {.world_size = world.size});
    exec_heavy(heavy_words(given));
  }
  given.flags.standalone = true;
  return launch_config(given, launch::resolve_nodes(given.flags, environment), environment);
}

}  // namespace coeus::app
