#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "job/job_config.h"

namespace coeus::train {

// runs/NAME: config.yaml, config.resolved.yaml, run.json, metrics, events, checkpoints. Only rank 0
// writes into it beside checkpoints.
class RunDirectory {
 public:
  explicit RunDirectory(files::Path path) : path_(std::move(path)) {}

  const files::Path& path() const { return path_; }
  files::Path checkpoints() const { return path_ / "checkpoints"; }

  // Where this run goes on from, by run.resume: the newest valid checkpoint, the given one, or
  // nothing. Says which was passed over. Throws ConfigError where `never` meets a used directory,
  // CheckpointError where a given path holds none.
  std::optional<checkpoint::FoundCheckpoint> find_start(const std::string& resume,
                                                        Logger& log) const;
  // Throws ConfigError listing every key that must not change, logs and records those that may.
  void check_resume(const LoadedJob& job, const std::string& tokenizer_hash, Logger& log) const;
  // config.yaml, config.resolved.yaml, run.json (stamps); one more attempt in its list.
  void write_start(const LoadedJob& job, const Json& stamps) const;

 private:
  files::Path path_;
};

}  // namespace coeus::train
