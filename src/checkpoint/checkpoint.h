#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace coeus::checkpoint {

// How ranks talk while saving and loading; train/save gives these over the host communicator, tools
// give those of a single rank.
struct Peers {
  int rank = 0, size = 1;
  std::function<std::vector<std::string>(const std::string&)> all_gather =
      [](const std::string& s) { return std::vector<std::string>{s}; };
  std::function<void()> barrier = [] {};
};

// Tensors of one kind that lie in one set of files: "model", "optimizer/master",
// "optimizer/exp_avg", … The split into files depends on the tensors alone (their order, 5 GB),
// never on ranks.
struct TensorSet {
  std::string prefix;
  std::vector<TensorInfo> tensors;  // names as on disk, in file order
};

// A contiguous part of one tensor in its row-major order, in this rank's memory.
struct WriteRun {
  std::string set, tensor;
  std::int64_t offset;  // elements
  std::span<const std::byte> bytes;
};
struct ReadRun {
  std::string set, tensor;
  std::int64_t offset;         // elements
  std::span<std::byte> bytes;  // its size decides how much is read
  DType dtype;  // of `bytes`: the file's, or F32 or BF16 where that holds F32, BF16 or F16
};

struct SaveRequest {
  files::Path directory;  // …/checkpoints
  std::int64_t step;
  std::vector<TensorSet> sets;  // the same on every rank
  std::vector<WriteRun> runs;   // this rank's; over all ranks they cover every tensor exactly once
  // Rank 0: config.json, tokenizer files, train_state.json …: relative name -> bytes.
  std::vector<std::pair<std::string, std::string>> texts;
  Json stamps;  // rank 0: library versions and such, for the manifest
  std::int64_t max_file_bytes = 5'000'000'000;  // where a set is split; less only in tests
  // Called at "created", "manifest" (both before the rename), "renamed" by rank 0 and at "written"
  // by every rank: where tests kill.
  std::function<void(const std::string&)> at = [](const std::string&) {};
};
// All ranks, together. Writes step-N.tmp-<attempt>, fsyncs, writes the manifest, renames. Returns
// the final folder. Throws CheckpointError on every rank if any rank failed; the folder then stays
// a .tmp one.
files::Path save(const SaveRequest& request, const Peers& peers);

struct FoundCheckpoint {
  files::Path path;
  std::int64_t step;
};
// Valid ones (a step folder with a manifest whose files have the sizes it says), oldest first.
// `passed_over`, if given, receives "path: why" for the others.
std::vector<FoundCheckpoint> find_checkpoints(const files::Path& directory,
                                              std::vector<std::string>* passed_over = nullptr);

// Deletes what policy lets go: never the two newest valid ones, never a name it does not know;
// removes abandoned .tmp folders older than the newest valid one.
std::vector<files::Path> retain(const files::Path& directory, const CheckpointConfig& policy);

// An open step folder, or any Hugging Face folder (no manifest, only a model set; single file or
// index).
class Reader {
 public:
  static Reader open(const files::Path& path);
  bool has_set(const std::string& prefix) const;
  std::vector<std::string> sets() const;
  std::vector<TensorInfo> tensors(const std::string& prefix) const;
  const Json& config() const;  // config.json
  std::optional<Json> train_state() const;
  std::optional<Json> manifest() const;
  // All ranks. Verifies per policy (full: every written run's hash, dealt out over the ranks; own:
  // those that overlap this rank's reads), then reads.
  void read(std::vector<ReadRun> runs, const Peers& peers, Verify verify) const;
  const files::Path& path() const { return path_; }

 private:
  struct State;
  files::Path path_;
  std::shared_ptr<State> state_;
};

struct VerifyReport {
  std::int64_t files = 0, runs = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> faults;  // "file: what is wrong"
};
VerifyReport verify(const files::Path& path);

}  // namespace coeus::checkpoint
