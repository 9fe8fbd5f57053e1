#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace coeus::checkpoint {

enum class DType {
  F32,
  BF16,
  F16,
  I64,
  I32,
  U8,
  F64,
  BOOL,
  I8,
  I16,
  U16,
  U32,
  U64,
  F8_E4M3,
  F8_E5M2
};
std::int64_t size_of(DType dtype);
std::string to_string(DType dtype);

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t num_elements() const;
  std::int64_t num_bytes() const;
};

// https://github.com/huggingface/safetensors#format : u64 header size, JSON header, tensors that
// tile the rest without hole or overlap.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;     // in data order
  std::vector<std::uint64_t> offsets;  // absolute file offset of each
  std::uint64_t file_size;
  Json metadata;
};
// The bytes to write before the data (header padded to 8), and where each tensor goes.
struct SafetensorsPlan {
  std::string head;
  std::vector<std::uint64_t> offsets;
  std::uint64_t file_size;
};
SafetensorsPlan plan_safetensors(const std::vector<TensorInfo>& tensors, const Json& metadata);
// Refuses, before allocating, headers longer than the file, overlaps, holes, counts and shapes that
// overflow. Throws CheckpointError naming the file.
SafetensorsHeader read_safetensors_header(const files::File& file);

}  // namespace coeus::checkpoint
