#include <algorithm>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_name.h"

namespace coeus::checkpoint {
namespace {

constexpr std::size_t kAlwaysKept = 2;  // the newest, and one to fall back on

// Why the folder is no whole checkpoint of that step; empty if it is one.
std::string fault_of(const files::Path& folder, std::int64_t step) {
  try {
    const Manifest manifest = Manifest::load(folder);
    if (manifest.step != step) return fmt::format("its manifest is of step {}", manifest.step);
    for (const auto& file : manifest.files) {
      if (auto fault = check_size(folder, file)) return *fault;
    }
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

// Under a .tmp name first: a deletion that is cut short leaves nothing that looks whole.
void remove_checkpoint(const files::Path& directory, std::int64_t step) {
  const files::Path doomed = directory / unused_name(directory, step);
  files::rename(directory / to_string(StepName{step, std::nullopt}), doomed);
  files::remove_all(doomed);
}

}  // namespace

std::vector<FoundCheckpoint> find_checkpoints(const files::Path& directory,
                                              std::vector<std::string>* passed_over) {
  std::vector<FoundCheckpoint> found;
  if (!files::is_directory(directory)) return found;
  for (const auto& name : files::list(directory)) {
    const auto parsed = parse_step_name(name);
    if (!parsed) continue;
    const files::Path folder = directory / name;
    const std::string fault = parsed->attempt ? "unfinished, the save was cut short or failed"
                                              : fault_of(folder, parsed->step);
    if (fault.empty()) {
      found.push_back({folder, parsed->step});
    } else if (passed_over) {
      passed_over->push_back(fmt::format("{}: {}", folder.string(), fault));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::vector<files::Path> retain(const files::Path& directory, const CheckpointConfig& policy) {
  std::vector<files::Path> removed;
  const auto found = find_checkpoints(directory);
  if (found.empty()) return removed;
  for (const auto& name : files::list(directory)) {
    const auto parsed = parse_step_name(name);
    if (parsed && parsed->attempt && parsed->step <= found.back().step) {
      files::remove_all(directory / name);
      removed.push_back(directory / name);
    }
  }
  if (policy.keep <= 0) return removed;
  const std::size_t keep = std::max(kAlwaysKept, static_cast<std::size_t>(policy.keep));
  for (std::size_t i = 0; i + keep < found.size(); ++i) {
    if (policy.keep_every > 0 && found[i].step % policy.keep_every == 0) continue;
    remove_checkpoint(directory, found[i].step);
    removed.push_back(found[i].path);
  }
  return removed;
}

}  // namespace coeus::checkpoint
