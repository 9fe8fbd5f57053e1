#pragma once
#include <string>

#include "base/json.h"
#include "models/llama/config.h"

namespace coeus::models {

// config.json of LlamaForCausalLM, in the spellings of transformers 4 and 5, without dtype and
// token ids.
Json llama_hf_config(const LlamaConfig& config);
// Reads both spellings. Throws CheckpointError "where: key: …" for what this model cannot honour.
LlamaConfig llama_config_from_hf(const Json& config, const std::string& where);
// Segment fqn -> tensor name.
std::string llama_hf_name(const std::string& fqn);

}  // namespace coeus::models
