#pragma once
#include <string>

#include "base/json.h"
#include "models/qwen3_moe/config.h"

namespace coeus::models {

// config.json of Qwen3MoeForCausalLM, without dtype and token ids.
Json qwen3_moe_hf_config(const Qwen3MoeConfig& config);
// Throws CheckpointError "where: key: …" for what this model cannot honour.
Qwen3MoeConfig qwen3_moe_config_from_hf(const Json& config, const std::string& where);
// Segment fqn -> tensor name.
std::string qwen3_moe_hf_name(const std::string& fqn);

}  // namespace coeus::models
