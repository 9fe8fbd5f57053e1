#pragma once
#include <string>
#include <vector>

#include "launch/launcher.h"

namespace coeus::launch {

// This process's environment with torchrun's variables for one rank, as NAME=value.
// listen_fd: what COEUS_LISTEN_FD names, -1 for none.
std::vector<std::string> rank_environment(const LaunchOptions& options,
                                          const Environment& environment, int local_rank,
                                          int listen_fd);

}  // namespace coeus::launch
