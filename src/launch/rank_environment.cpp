#include "launch/rank_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace coeus::launch {

std::vector<std::string> rank_environment(const LaunchOptions& options,
                                          const Environment& environment, int local_rank,
                                          int listen_fd) {
  const std::string rank = fmt::to_string(options.node_rank * options.ranks_per_node + local_rank);
  const std::string size = fmt::to_string(options.num_nodes * options.ranks_per_node);
  std::map<std::string, std::string> set = {
      {"RANK", rank},
      {"WORLD_SIZE", size},
      {"LOCAL_RANK", fmt::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", fmt::to_string(options.ranks_per_node)},
      {"GROUP_RANK", fmt::to_string(options.node_rank)},
      {"GROUP_WORLD_SIZE", fmt::to_string(options.num_nodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", size},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", options.master_address},
      {"MASTER_PORT", fmt::to_string(options.master_port)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"COEUS_LISTEN_FD", listen_fd >= 0 ? fmt::to_string(listen_fd) : ""},
  };
  const auto set_default = [&](const char* name, const std::string& value) {
    if (!environment(name)) set[name] = value;
  };
  // Ranks share the cores; OpenMP threads that spin at barriers would take them from each other.
  set_default("OMP_NUM_THREADS",
              fmt::to_string(std::max(1, count_cores() / options.ranks_per_node)));
  set_default("OMP_WAIT_POLICY", "passive");
  set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!set.count(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : set)
    if (!value.empty()) result.push_back(name + "=" + value);
  return result;
}

}  // namespace coeus::launch
