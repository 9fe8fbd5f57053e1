#pragma once
#include <string>

#include "base/json.h"
#include "models/mixtral/config.h"

namespace coeus::models {

// config.json of MixtralForCausalLM, without dtype and token ids.
Json mixtral_hf_config(const MixtralConfig& config);
// Throws CheckpointError "where: key: …" for what this model cannot honour.
MixtralConfig mixtral_config_from_hf(const Json& config, const std::string& where);
// Segment fqn -> tensor name.
std::string mixtral_hf_name(const std::string& fqn);

}  // namespace coeus::models
