#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "checkpoint/agree.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_plan.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_name.h"
#include "checkpoint/writer.h"

namespace coeus::checkpoint {
namespace {

std::string pack(const std::vector<Record>& records) {
  return {reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)};
}

struct RankRecord : Record {
  std::size_t rank;
};

std::vector<RankRecord> unpack(const std::vector<std::string>& packed) {
  std::vector<RankRecord> all;
  for (std::size_t rank = 0; rank < packed.size(); ++rank) {
    for (std::size_t at = 0; at < packed[rank].size(); at += sizeof(Record)) {
      Record r;
      std::memcpy(&r, packed[rank].data() + at, sizeof r);
      all.push_back({r, rank});
    }
  }
  std::sort(all.begin(), all.end(), [](const RankRecord& a, const RankRecord& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return all;
}

// What rank 0 alone does.
class Leader {
 public:
  Leader(const SaveRequest& request, const FilePlan& plan) : request_(request), plan_(plan) {}

  // The folder with all data files at their full size, headers written. Returns its name.
  std::string create() const {
    files::make_directories(request_.directory);
    const std::uint64_t need = plan_.num_bytes(), free = files::free_bytes(request_.directory);
    if (need > free) {
      throw CheckpointError(fmt::format("{}: {} bytes are needed, {} are free",
                                        request_.directory.string(), need, free));
    }
    const std::string name = unused_name(request_.directory, request_.step);
    const files::Path folder = request_.directory / name;
    files::make_directories(folder);
    for (const auto& f : plan_.files()) {
      files::make_directories((folder / f.name).parent_path());
      const auto file = files::File::create(folder / f.name);
      file.truncate(f.layout.file_size);
      file.write(0, std::as_bytes(std::span(f.layout.head.data(), f.layout.head.size())));
      file.sync();
    }
    request_.at("created");
    return name;
  }

  // Checks what all ranks wrote, adds the texts and the manifest, makes the folder final.
  std::string commit(const std::string& name, const std::vector<std::string>& packed) const {
    const files::Path folder = request_.directory / name;
    Manifest manifest{request_.step, request_.stamps, data_files(unpack(packed))};
    auto texts = request_.texts;
    if (auto index = plan_.model_index(); !index.empty()) {
      texts.emplace_back("model.safetensors.index.json", std::move(index));
    }
    for (const auto& [file, text] : texts) {
      if (manifest.find(file)) throw CheckpointError(file + ": two files of that name");
      write_synced(folder / file, text);
      manifest.files.push_back({file, text.size(), runs_of(text)});
    }
    write_synced(folder / kManifestName, manifest.to_text());
    sync_folders(folder, manifest);
    request_.at("manifest");
    const std::string final = finish(name);
    request_.at("renamed");
    return final;
  }

 private:
  static void write_synced(const files::Path& path, std::string_view text) {
    files::make_directories(path.parent_path());
    const auto file = files::File::create(path);
    file.write(0, std::as_bytes(std::span(text.data(), text.size())));
    file.sync();
  }

  static void sync_folders(const files::Path& folder, const Manifest& manifest) {
    std::set<files::Path> folders{folder};
    for (const auto& f : manifest.files) folders.insert((folder / f.name).parent_path());
    for (const auto& f : folders) files::sync_directory(f);
  }

  // One entry a data file; its runs must be its header and then every byte exactly once.
  std::vector<ManifestFile> data_files(const std::vector<RankRecord>& records) const {
    std::vector<ManifestFile> out;
    auto next = records.begin();
    for (std::size_t f = 0; f < plan_.files().size(); ++f) {
      const PlannedFile& planned = plan_.files()[f];
      ManifestFile file{planned.name, planned.layout.file_size, runs_of(planned.layout.head)};
      std::uint64_t end = planned.layout.head.size();
      for (; next != records.end() && next->file == f; ++next) {
        if (next->offset != end) fail_cover(f, end, *next);
        end += next->size;
        file.runs.push_back({next->offset, next->size, next->hash});
      }
      if (end != file.size) {
        throw CheckpointError(fmt::format("{}: bytes {}..{} of {} were given by no rank", file.name,
                                          end, file.size, plan_.tensor_at(f, end)));
      }
      out.push_back(std::move(file));
    }
    return out;
  }

  [[noreturn]] void fail_cover(std::size_t f, std::uint64_t end, const RankRecord& r) const {
    const std::string& name = plan_.files()[f].name;
    if (r.offset > end) {
      throw CheckpointError(fmt::format("{}: bytes {}..{} of {} were given by no rank", name, end,
                                        r.offset, plan_.tensor_at(f, end)));
    }
    throw CheckpointError(
        fmt::format("{}: bytes from {} on of {} were given twice, again by rank {}", name, r.offset,
                    plan_.tensor_at(f, r.offset), r.rank));
  }

  // What already lies under the final name (a faulty folder, or one of another course of the run)
  // is moved aside; retention deletes it.
  std::string finish(const std::string& name) const {
    const std::string final = to_string(StepName{request_.step, std::nullopt});
    const files::Path& directory = request_.directory;
    if (files::exists(directory / final)) {
      files::rename(directory / final, directory / unused_name(directory, request_.step));
    }
    files::rename(directory / name, directory / final);
    files::sync_directory(directory);
    return final;
  }

  const SaveRequest& request_;
  const FilePlan& plan_;
};

}  // namespace

files::Path save(const SaveRequest& request, const Peers& peers) {
  COEUS_ASSERT(request.step >= 0, "step {}", request.step);
  const std::string what = fmt::format("cannot save step {}", request.step);
  const bool leads = peers.rank == 0;

  std::optional<FilePlan> plan;
  std::optional<RunWriter> writer;
  const auto plans = agree(peers, what, [&] {
    plan.emplace(request.sets, request.max_file_bytes);
    writer.emplace(*plan, request.runs);
    return fmt::format("step {} plan {:x}", request.step, plan->fingerprint());
  });
  for (std::size_t rank = 1; rank < plans.size(); ++rank) {
    if (plans[rank] != plans[0]) {
      throw CheckpointError(
          fmt::format("{}: rank {} would save other tensors than rank 0", what, rank));
    }
  }

  const Leader leader(request, *plan);
  const std::string name =
      agree(peers, what, [&] { return leads ? leader.create() : std::string(); })[0];
  const auto packed = agree(peers, what, [&] {
    const auto records = writer->write(request.directory / name);
    request.at("written");
    return pack(records);
  });
  const std::string final =
      agree(peers, what, [&] { return leads ? leader.commit(name, packed) : std::string(); })[0];
  return request.directory / final;
}

}  // namespace coeus::checkpoint
