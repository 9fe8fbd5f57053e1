#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace coeus::checkpoint {

// One safetensors file to be written.
struct PlannedFile {
  std::string set, name;  // name: relative to the step folder
  std::vector<TensorInfo> tensors;
  SafetensorsPlan layout;
};

// Which files the sets become, and where each tensor lies. The same on every rank.
class FilePlan {
 public:
  // Throws CheckpointError where a set or a tensor is named twice.
  FilePlan(const std::vector<TensorSet>& sets, std::int64_t max_file_bytes);

  const std::vector<PlannedFile>& files() const { return files_; }
  std::uint64_t num_bytes() const;
  std::uint64_t fingerprint() const;

  struct Place {
    std::size_t file;
    std::uint64_t offset, size;  // bytes
  };
  // Where a run of a tensor lies; throws CheckpointError if there is no such tensor or the run ends
  // beyond it.
  Place place(const WriteRun& run) const;
  // The tensor that holds a byte of a file, for messages.
  std::string tensor_at(std::size_t file, std::uint64_t offset) const;
  // model.safetensors.index.json, empty where the model is one file.
  std::string model_index() const;

 private:
  void add_set(const TensorSet& set, std::int64_t max_file_bytes);

  struct TensorPlace {
    std::size_t file, index;
  };
  std::vector<PlannedFile> files_;
  std::unordered_map<std::string, TensorPlace> tensors_;  // "set\0tensor"
};

}  // namespace coeus::checkpoint
