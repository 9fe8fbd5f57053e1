#pragma once
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace coeus::checkpoint {

// All ranks: each does its `work`, then learns how it went for all. Returns what each rank's work
// returned; if it threw anywhere, throws CheckpointError on every rank, a line for each cause:
// "<what>: rank 2: <cause>". No rank passes before all have come.
std::vector<std::string> agree(const Peers& peers, const std::string& what,
                               const std::function<std::string()>& work);

}  // namespace coeus::checkpoint
