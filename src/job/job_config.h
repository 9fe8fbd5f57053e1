#pragma once
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "comm/config.h"
#include "data/config.h"
#include "metrics/config.h"
#include "models/model_config.h"
#include "optim/config.h"
#include "parallel/config.h"
#include "train/config.h"

namespace coeus {

// The whole YAML file.
struct JobConfig {
  RunConfig run;
  std::unique_ptr<ModelConfig> model;  // chosen by model.name
  std::string model_preset;
  TokenizerConfig tokenizer;
  DataConfig data;
  TrainingConfig training;
  ParallelConfig parallel;
  ExecutionConfig execution;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  CheckpointConfig checkpoint;
  GuardsConfig guards;
  EvaluationConfig evaluation;
  MetricsConfig metrics;
  CommConfig comm;
  ProfileConfig profile;
  std::vector<std::string> plugins;

  JobConfig();
  JobConfig(const JobConfig& other);
  JobConfig& operator=(const JobConfig& other);
  JobConfig(JobConfig&&) = default;
  JobConfig& operator=(JobConfig&&) = default;
};

struct LoadedJob {
  JobConfig config;
  std::string name;      // what the user typed: a file or a built-in name
  std::string given;     // the YAML file's text as the user wrote it
  std::string resolved;  // the whole configuration as YAML, every field, loadable again
  std::string
      annotated;  // the same, each value with the origin it came from (what validate --print shows)
  std::vector<std::string> warnings;
};

struct LoadOptions {
  std::int64_t world_size = 0;  // 0: not known yet, only checks that need none
};

// CONFIG (a file, or a built-in name such as llama/debug) and overrides (a.b=1, --a.b=1) -> the
// checked configuration. Throws one ConfigError whose text lists every fault, a line each:
// file:line:col: key.path: what is wrong; did you mean … When checkpoint.initialize_from is set,
// absent model and tokenizer come from that folder.
LoadedJob load_job(const std::string& config, const std::vector<std::string>& overrides,
                   const LoadOptions& options = {});

// The same from YAML text; `name` stands for the file in messages.
LoadedJob parse_job(const std::string& yaml, const std::string& name,
                    const std::vector<std::string>& overrides = {},
                    const LoadOptions& options = {});

// Faults across sections for a world of that many ranks, e.g. "training.global_batch_size: 6 must
// divide by …".
std::vector<std::string> check_layout(const JobConfig& config, std::int64_t world_size);

// Takes the tokenizer's vocabulary where the model gives none. Throws ConfigError where the model's
// is smaller.
void check_vocabulary(JobConfig& config, std::int64_t tokenizer_vocab_size);

// Paths of data and tokenizer that are not there: "data.sources.0: no file matches …".
std::vector<std::string> missing_inputs(const JobConfig& config);

// Every field as YAML, loadable again.
std::string resolved_text(const JobConfig& config);

std::vector<std::string> builtin_config_names();
std::string builtin_config_text(const std::string& name);
std::string configuration_reference();  // docs/configuration.md

// Which keys may differ when a run is resumed (interface.md section 3). `forbidden` non-empty: the
// run must not start.
struct ResumeDifferences {
  std::vector<std::string> forbidden, allowed;  // "key: was A, is B"
};
ResumeDifferences compare_for_resume(const JobConfig& before, const JobConfig& now);

}  // namespace coeus
