#pragma once
#include "coeus/config/fields.h"
#include "config/value.h"
#include "job/job_config.h"

namespace coeus::job {

// The sections of the file, as fields.
struct Sections {
  JobConfig& config;
  void describe(config::Fields& f);
};

// A configuration as a tree. Mode::schema adds sample items to empty lists and the keys of every
// model.
config::Value write_tree(const JobConfig& config, config::Mode mode);

// Of a model alone: its keys, without name and preset.
config::Value write_tree(const ModelConfig& model);

}  // namespace coeus::job
