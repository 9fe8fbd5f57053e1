#include <algorithm>
#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/contents.h"

namespace coeus::checkpoint {
namespace {

void list_files(const files::Path& folder, const std::string& prefix,
                std::vector<std::string>& names) {
  for (const auto& name : files::list(folder / prefix)) {
    const std::string relative = prefix.empty() ? name : prefix + "/" + name;
    if (files::is_directory(folder / relative)) {
      list_files(folder, relative, names);
    } else {
      names.push_back(relative);
    }
  }
}

// Dealt over the cores.
std::vector<std::string> check_all(const files::Path& folder, const std::vector<Piece>& pieces) {
  const std::size_t n = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::vector<std::string>> faults(n);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < n; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Piece> share;
        for (std::size_t i = t; i < pieces.size(); i += n) share.push_back(pieces[i]);
        faults[t] = check_pieces(folder, share);
      });
    }
  }
  std::vector<std::string> all;
  for (auto& f : faults) all.insert(all.end(), f.begin(), f.end());
  std::sort(all.begin(), all.end());
  return all;
}

void verify_manifest(const files::Path& folder, VerifyReport& report) {
  const Manifest manifest = Manifest::load(folder);
  std::vector<Piece> pieces;
  for (const auto& f : manifest.files) {
    ++report.files;
    if (auto fault = check_size(folder, f)) {
      report.faults.push_back(*fault);
      continue;
    }
    report.runs += static_cast<std::int64_t>(f.runs.size());
    report.bytes += f.size;
    for (const auto& run : f.runs) pieces.push_back({&f, &run});
  }
  const auto faults = check_all(folder, pieces);
  report.faults.insert(report.faults.end(), faults.begin(), faults.end());
  std::vector<std::string> present;
  list_files(folder, "", present);
  for (const auto& name : present) {
    if (name != kManifestName && !manifest.find(name)) {
      report.faults.push_back(name + ": not in the manifest, a foreign file");
    }
  }
}

}  // namespace

VerifyReport verify(const files::Path& path) {
  if (!files::is_directory(path)) {
    throw CheckpointError(fmt::format("{}: no such folder", path.string()));
  }
  VerifyReport report;
  try {
    const bool has_manifest = files::exists(path / kManifestName);
    if (has_manifest) verify_manifest(path, report);
    if (!report.faults.empty()) return report;
    const Contents contents = read_contents(path);
    if (has_manifest) return report;
    report.files = static_cast<std::int64_t>(contents.files.size());
    for (const auto& name : contents.files) {
      report.bytes += files::File::open_to_read(path / name).size();
    }
  } catch (const Error& e) {
    report.faults.push_back(e.what());
  }
  return report;
}

}  // namespace coeus::checkpoint
