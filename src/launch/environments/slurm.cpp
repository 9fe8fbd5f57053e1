#include <numeric>

#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {
namespace {

// Batch scripts, interactive and extern steps carry ids from here on: nobody's srun.
constexpr unsigned long long kFirstSpecialStep = 0xfffffff0;

// The first of `names` that is set: step variables before those that the job may have left behind.
const char* first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (environment(name)) return name;
  return *names.begin();
}

std::string first_host(const Environment& environment, const char* list) {
  const auto hosts = expand_nodelist(environment(list).value_or(""));
  return hosts.empty() ? "" : hosts.front();
}

// srun in a batch script runs on the job's first node, whose address then needs no name service;
// from a login node it does not, and the step's first host is the master.
std::string master_address(const Environment& environment) {
  const std::string host = first_host(environment, "SLURM_STEP_NODELIST");
  const auto launch_address = environment("SLURM_LAUNCH_NODE_IPADDR");
  const bool from_batch = environment("ENVIRONMENT") == "BATCH" &&
                          host == first_host(environment, "SLURM_JOB_NODELIST");
  return launch_address && (from_batch || host.empty()) ? *launch_address : host;
}

unsigned long long read_id(const Environment& environment, const char* name) {
  const std::string text = environment(name).value_or("0");
  if (text.empty() || text.size() > 12 || text.find_first_not_of("0123456789") != std::string::npos)
    throw UsageError(fmt::format("{}={} is not a whole number", name, text));
  return std::stoull(text);
}

}  // namespace

Finding find_srun(const Environment& environment) {
  // SLURM_JOB_ID and even SLURM_PROCID are set in batch scripts and salloc shells too.
  if (!environment("SLURM_STEP_ID") || !environment("SLURM_PROCID")) return {};
  const auto step = read_id(environment, "SLURM_STEP_ID");
  if (step >= kFirstSpecialStep) return {};
  const char* ntasks = first_set(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const char* nodes = first_set(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const char* per_node =
      first_set(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  for (const char* name : {ntasks, nodes, per_node, "SLURM_LOCALID", "SLURM_NODEID"})
    if (!environment(name))
      return {
          {},
          fmt::format("{}: an srun step needs all of them",
                      show_variables(environment, {"SLURM_STEP_ID", "SLURM_PROCID", ntasks, nodes,
                                                   per_node, "SLURM_LOCALID", "SLURM_NODEID"}))};
  check_index(environment, "SLURM_PROCID", ntasks);
  check_index(environment, "SLURM_NODEID", nodes);
  const auto tasks = expand_tasks_per_node(*environment(per_node));
  World world;
  world.source = "srun";
  world.rank = *read_integer(environment, "SLURM_PROCID");
  world.size = *read_integer(environment, ntasks);
  world.node_rank = *read_integer(environment, "SLURM_NODEID");
  world.num_nodes = *read_integer(environment, nodes);
  world.local_rank = *read_integer(environment, "SLURM_LOCALID");
  if (static_cast<int>(tasks.size()) != world.num_nodes ||
      std::accumulate(tasks.begin(), tasks.end(), 0LL) != world.size)
    throw UsageError(fmt::format("{} is impossible: the tasks of all nodes must add up",
                                 show_variables(environment, {per_node, nodes, ntasks})));
  world.local_size = tasks[world.node_rank];
  if (world.local_rank < 0 || world.local_rank >= world.local_size)
    throw UsageError(fmt::format("{} is impossible: node {} has {} tasks",
                                 show_variables(environment, {"SLURM_LOCALID", per_node}),
                                 world.node_rank, world.local_size));
  world.master_address = master_address(environment);
  world.master_port = derive_port(
      read_id(environment, first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"})), step);
  read_master(environment, world);
  return {world, {}};
}

}  // namespace coeus::launch
