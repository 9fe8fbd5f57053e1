#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/file_plan.h"

namespace coeus::checkpoint {

// What was written at once.
struct Record {
  std::uint64_t file, offset, size, hash;  // file: index into FilePlan::files()
};

// Writes one rank's runs into files that exist at their full size.
class RunWriter {
 public:
  // Throws CheckpointError where a run does not fit the plan.
  RunWriter(const FilePlan& plan, const std::vector<WriteRun>& runs);
  // Runs that follow one another in the file are written and hashed together, in pieces of at most
  // kMaxRunBytes; each file is synced.
  std::vector<Record> write(const files::Path& folder);

 private:
  struct Chunk {
    std::size_t file;
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };
  std::span<const std::byte> joined(const std::vector<std::span<const std::byte>>& parts);
  void take_piece(std::size_t& chunk, std::vector<std::span<const std::byte>>& parts);

  const FilePlan& plan_;
  std::vector<Chunk> chunks_;      // by file and offset
  std::vector<std::byte> buffer_;  // where pieces of several runs are put together
};

}  // namespace coeus::checkpoint
