#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optim/config.h"

namespace coeus::optim {

// lr / optimizer.lr at 0-based step s of `steps` (interface.md section 2): exact for tiny totals.
double lr_multiplier(const LrScheduleConfig& config, std::int64_t step, std::int64_t steps);
// What had to be cut so that warm-up and decay fit into `steps`; empty if nothing.
std::string schedule_warning(const LrScheduleConfig& config, std::int64_t steps);

}  // namespace coeus::optim
