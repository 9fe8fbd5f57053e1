#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/world.h"

namespace coeus::launch {

// Reads one variable; tests give a map. Only launch/ and app/ read the environment.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

// The world this process belongs to: the full torchrun set, Open MPI, an srun step, PMI, alone; the
// first complete source wins. Throws UsageError where a set is incomplete or impossible, with both
// values.
World detect_world(const Environment& environment);

// "n[001-003,7],m1" -> the host names.
std::vector<std::string> expand_nodelist(const std::string& list);

// GPUs this process may use: what CUDA_VISIBLE_DEVICES leaves of what libcuda.so.1 counts (opened,
// not linked); 0 without a driver.
int count_gpus(const Environment& environment);

// Cores this process may run on (its affinity mask), at least 1.
int count_cores();

}  // namespace coeus::launch
