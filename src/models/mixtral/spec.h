#pragma once
#include "layout/segments.h"
#include "models/mixtral/config.h"

namespace coeus::models {

// Layers embed, blocks.N, norm, head, with their parameters as model.cpp registers them.
ModelSpec mixtral_spec(const MixtralConfig& config);

}  // namespace coeus::models
