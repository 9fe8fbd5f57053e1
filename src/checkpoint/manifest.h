#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

// manifest.json, see docs/formats/checkpoint.md.
namespace coeus::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr std::int64_t kManifestVersion = 1;
inline constexpr std::uint64_t kMaxRunBytes = 64 << 20;  // a run is verified in one buffer

// Bytes of a file that were written and hashed at once.
struct Run {
  std::uint64_t offset, size, hash;  // XXH3-64
};

struct ManifestFile {
  std::string name;  // relative to the step folder
  std::uint64_t size = 0;
  std::vector<Run> runs;  // by offset; they tile the file
};

struct Manifest {
  std::int64_t step = 0;
  Json stamps;
  std::vector<ManifestFile> files;

  // Ends with a hash of itself, so that no byte of it can change unseen.
  std::string to_text() const;
  // Throws CheckpointError naming the file and the fault.
  static Manifest load(const files::Path& folder);
  const ManifestFile* find(const std::string& name) const;
};

// The text cut into runs of at most kMaxRunBytes.
std::vector<Run> runs_of(std::string_view text);

// "name: what is wrong" where a file is absent or has another size; nothing is hashed.
std::optional<std::string> check_size(const files::Path& folder, const ManifestFile& file);

// What is to be hashed: one run of one file.
struct Piece {
  const ManifestFile* file;
  const Run* run;
};
// Hashes the pieces and returns "name: what is wrong" for each that differs or cannot be read.
std::vector<std::string> check_pieces(const files::Path& folder, const std::vector<Piece>& pieces);

}  // namespace coeus::checkpoint
