#pragma once
#include <string>

#include "base/json.h"
#include "models/deepseek_v3/config.h"

namespace coeus::models {

// config.json of DeepseekV3ForCausalLM, without dtype and token ids.
Json deepseek_v3_hf_config(const DeepseekV3Config& config);
// Throws CheckpointError "where: key: …" for what this model cannot honour.
DeepseekV3Config deepseek_v3_config_from_hf(const Json& config, const std::string& where);
// Segment or buffer fqn -> tensor name.
std::string deepseek_v3_hf_name(const std::string& fqn);

}  // namespace coeus::models
