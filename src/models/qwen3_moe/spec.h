#pragma once
#include "layout/segments.h"
#include "models/qwen3_moe/config.h"

namespace coeus::models {

// Layers embed, blocks.N, norm, head, with their parameters as model.cpp registers them.
ModelSpec qwen3_moe_spec(const Qwen3MoeConfig& config);

}  // namespace coeus::models
