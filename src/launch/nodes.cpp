#include "base/error.h"
#include "launch/environments/environments.h"
#include "launch/flags.h"

namespace coeus::launch {
namespace {

constexpr int kDefaultPort = 29500;  // torchrun's

void check_against_step(const LaunchFlags& flags, const World& step) {
  if (step.size != step.num_nodes)
    throw UsageError(
        fmt::format("srun started {} tasks on {} nodes, and `coeus launch` wants one task a node "
                    "(--ntasks-per-node=1); `coeus train` joins such a step",
                    step.size, step.num_nodes));
  if (step.num_nodes > 1 && flags.standalone)
    throw UsageError(fmt::format("--standalone against an srun step of {} nodes", step.num_nodes));
  if (flags.num_nodes.value_or(step.num_nodes) != step.num_nodes && step.num_nodes > 1)
    throw UsageError(fmt::format("--nnodes {} against an srun step of {} nodes", *flags.num_nodes,
                                 step.num_nodes));
  if (flags.node_rank.value_or(step.node_rank) != step.node_rank && step.num_nodes > 1)
    throw UsageError(
        fmt::format("--node-rank {} against SLURM_NODEID={}", *flags.node_rank, step.node_rank));
}

}  // namespace

LaunchOptions resolve_nodes(const LaunchFlags& flags, const Environment& environment) {
  LaunchOptions options;
  const auto step = find_srun(environment).world;
  if (step) check_against_step(flags, *step);
  if (step && step->num_nodes > 1) {
    options.num_nodes = step->num_nodes;
    options.node_rank = step->node_rank;
    options.master_address = step->master_address;
    options.master_port = step->master_port;
  } else {
    options.num_nodes = flags.num_nodes.value_or(1);
    options.node_rank = flags.node_rank.value_or(0);
    if (flags.standalone && options.num_nodes != 1)
      throw UsageError(fmt::format("--standalone against --nnodes {}", options.num_nodes));
    if (options.node_rank >= options.num_nodes)
      throw UsageError(fmt::format("--node-rank {} is impossible with --nnodes {}",
                                   options.node_rank, options.num_nodes));
    if (options.num_nodes > 1 && !(flags.master_address && flags.node_rank))
      throw UsageError(fmt::format("--nnodes {} needs --node-rank and --master-addr on every node",
                                   options.num_nodes));
    options.master_port = options.num_nodes > 1 ? kDefaultPort : 0;
  }
  if (!flags.standalone) {
    options.master_address = flags.master_address.value_or(options.master_address);
    options.master_port = flags.master_port.value_or(options.master_port);
  }
  if (options.num_nodes > 1 && options.master_port == 0)
    throw UsageError("--master-port 0: several nodes need one that all of them know");
  options.run_id = flags.run_id.value_or("none");
  options.log_directory = flags.log_directory.value_or("");
  options.shown_local_ranks = flags.shown_local_ranks;
  return options;
}

}  // namespace coeus::launch
