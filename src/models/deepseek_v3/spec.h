#pragma once
#include "layout/segments.h"
#include "models/deepseek_v3/config.h"

namespace coeus::models {

// Layers embed, blocks.N, norm, head, with their parameters as model.cpp registers them.
ModelSpec deepseek_v3_spec(const DeepseekV3Config& config);

}  // namespace coeus::models
