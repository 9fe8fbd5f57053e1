#pragma once
#include "layout/segments.h"
#include "models/llama/config.h"

namespace coeus::models {

// Layers embed, blocks.N, norm, head, with their parameters as model.cpp registers them. q, k, v
// and gate, up are stacks: attention.qkv.weight and mlp.gate_up.weight.
ModelSpec llama_spec(const LlamaConfig& config);

}  // namespace coeus::models
