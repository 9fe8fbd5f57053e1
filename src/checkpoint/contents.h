#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace coeus::checkpoint {

// What a folder offers: a step folder by its manifest, any other as a Hugging Face model.
struct Contents {
  struct Place {
    std::size_t tensor, file;
    std::uint64_t offset;  // bytes
  };
  struct Set {
    std::vector<TensorInfo> tensors;  // in file order
    std::unordered_map<std::string, Place> places;
  };
  std::optional<Manifest> manifest;
  Json config;
  std::optional<Json> train_state;
  std::vector<std::string> files;  // the safetensors, relative to the folder
  std::map<std::string, Set> sets;
};

// Throws CheckpointError, a line for each fault. Hashes only config.json and train_state.json,
// which are used before the rest can be verified.
Contents read_contents(const files::Path& folder);

// Whether the folder's name is one that only whole step folders, which have a manifest, may bear.
bool is_step_folder(const files::Path& folder);

}  // namespace coeus::checkpoint
