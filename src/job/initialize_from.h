#pragma once
#include "config/value.h"
#include "job/job_config.h"

namespace coeus::job {

// checkpoint.initialize_from: what the file leaves out (model, tokenizer) is taken from that
// folder, what it gives must agree.
void adopt_initial_folder(JobConfig& config, const config::Value& tree, config::Report& report,
                          std::vector<std::string>& warnings);

}  // namespace coeus::job
