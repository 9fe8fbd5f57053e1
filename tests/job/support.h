#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "job/job_config.h"

namespace coeus {

// A legal configuration of seven lines.
inline const char* const kLegal =
    "run: {directory: runs/x}\n"
    "model: {name: llama, preset: debug}\n"
    "tokenizer: {path: byte}\n"
    "data: {sources: [a.txt], sequence_length: 64}\n"
    "training: {steps: 10, global_batch_size: 16, micro_batch_size: 2}\n"
    "evaluation: {holdout: 0.1}\n"
    "optimizer: {lr: 1e-3}\n";

// All faults, a line each; empty for a legal configuration.
inline std::string faults_of(const std::string& yaml,
                             const std::vector<std::string>& overrides = {},
                             const LoadOptions& options = {}) {
  try {
    parse_job(yaml, "x.yaml", overrides, options);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace coeus
