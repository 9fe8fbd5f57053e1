#pragma once
#include <vector>

#include "core/flat_shard.h"

namespace coeus::optim {

// Σ g² over these shards, [] fp64 on their device, the same bits each time. The caller passes each
// segment's gradient once per rank that owns a part of it, and reduces over those ranks.
Tensor sum_of_squares(const std::vector<FlatShard>& shards);

// min(1, max_norm / (norm + 1e-6)), [] fp32 on the device of `norm`; 1 where max_norm is 0 (off).
Tensor clip_factor(const Tensor& norm, double max_norm);

}  // namespace coeus::optim
