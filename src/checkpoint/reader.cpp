#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "base/error.h"
#include "checkpoint/agree.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/contents.h"
#include "checkpoint/convert.h"

namespace coeus::checkpoint {
namespace {

constexpr std::int64_t kConvertedAtOnce = 1 << 20;  // elements

// A run and where it lies.
struct Located {
  ReadRun run;
  DType stored;
  std::size_t file;
  std::uint64_t offset, size;  // bytes in the file
};

Located locate(const Contents& contents, const ReadRun& run) {
  const auto fail = [&](const std::string& what) {
    throw CheckpointError(fmt::format("{}: tensor {}: {}", run.set, run.tensor, what));
  };
  const auto set = contents.sets.find(run.set);
  if (set == contents.sets.end()) throw CheckpointError(fmt::format("no {} here", run.set));
  const auto place = set->second.places.find(run.tensor);
  if (place == set->second.places.end()) fail("not in this checkpoint");
  const TensorInfo& t = set->second.tensors[place->second.tensor];
  if (run.dtype != t.dtype && !can_convert(t.dtype, run.dtype)) {
    fail(fmt::format("is {}, wanted is {}", to_string(t.dtype), to_string(run.dtype)));
  }
  const auto bytes = static_cast<std::int64_t>(run.bytes.size());
  const std::int64_t count = bytes / size_of(run.dtype);
  if (bytes % size_of(run.dtype) != 0 || run.offset < 0 || run.offset > t.num_elements() - count) {
    fail(fmt::format("{} bytes at element {} are not within its {} elements", bytes, run.offset,
                     t.num_elements()));
  }
  const auto width = size_of(t.dtype);
  return {run, t.dtype, place->second.file,
          place->second.offset + static_cast<std::uint64_t>(run.offset * width),
          static_cast<std::uint64_t>(count * width)};
}

std::vector<Piece> dealt_pieces(const Manifest& manifest, const Peers& peers) {
  std::vector<Piece> pieces;
  std::size_t i = 0;
  for (const auto& f : manifest.files) {
    for (const auto& run : f.runs) {
      if (i++ % static_cast<std::size_t>(peers.size) == static_cast<std::size_t>(peers.rank)) {
        pieces.push_back({&f, &run});
      }
    }
  }
  return pieces;
}

// The written runs that hold any byte of the reads, and the headers of their files.
std::vector<Piece> own_pieces(const Contents& contents, const std::vector<Located>& reads) {
  std::set<std::tuple<std::size_t, std::size_t>> wanted;  // file, run
  std::vector<const ManifestFile*> listed;
  for (const auto& name : contents.files) listed.push_back(contents.manifest->find(name));
  for (const auto& r : reads) {
    const auto& runs = listed[r.file]->runs;
    wanted.emplace(r.file, 0);
    auto first = std::upper_bound(runs.begin(), runs.end(), r.offset,
                                  [](std::uint64_t at, const Run& run) { return at < run.offset; });
    for (auto run = std::prev(first); run != runs.end() && run->offset < r.offset + r.size; ++run) {
      wanted.emplace(r.file, std::distance(runs.begin(), run));
    }
  }
  std::vector<Piece> pieces;
  for (const auto& [file, run] : wanted) pieces.push_back({listed[file], &listed[file]->runs[run]});
  return pieces;
}

void read_converted(const files::File& file, const Located& r, std::vector<std::byte>& buffer) {
  const std::int64_t from = size_of(r.stored), to = size_of(r.run.dtype);
  const std::int64_t count = static_cast<std::int64_t>(r.size) / from;
  for (std::int64_t at = 0; at < count; at += kConvertedAtOnce) {
    const std::int64_t part = std::min(kConvertedAtOnce, count - at);
    buffer.resize(static_cast<std::size_t>(part * from));
    file.read(r.offset + static_cast<std::uint64_t>(at * from), buffer);
    convert(r.stored, buffer, r.run.dtype,
            r.run.bytes.subspan(static_cast<std::size_t>(at * to),
                                static_cast<std::size_t>(part * to)));
  }
}

void read_all(const files::Path& folder, const Contents& contents,
              const std::vector<Located>& reads) {
  std::optional<files::File> file;
  std::size_t current = 0;
  std::vector<std::byte> buffer;
  for (const auto& r : reads) {
    if (!file || r.file != current) {
      file.emplace(files::File::open_to_read(folder / contents.files[r.file]));
      current = r.file;
    }
    if (r.stored == r.run.dtype) {
      file->read(r.offset, r.run.bytes);
    } else {
      read_converted(*file, r, buffer);
    }
  }
}

}  // namespace

struct Reader::State : Contents {};

Reader Reader::open(const files::Path& path) {
  Reader reader;
  reader.path_ = path;
  reader.state_ = std::make_shared<State>(State{read_contents(path)});
  return reader;
}

bool Reader::has_set(const std::string& prefix) const {
  return state_->sets.contains(prefix);
}

std::vector<std::string> Reader::sets() const {
  std::vector<std::string> names;
  for (const auto& [name, set] : state_->sets) names.push_back(name);
  return names;
}

std::vector<TensorInfo> Reader::tensors(const std::string& prefix) const {
  const auto set = state_->sets.find(prefix);
  if (set == state_->sets.end()) {
    throw CheckpointError(fmt::format("{}: no {} here", path_.string(), prefix));
  }
  return set->second.tensors;
}

const Json& Reader::config() const {
  return state_->config;
}

std::optional<Json> Reader::train_state() const {
  return state_->train_state;
}

std::optional<Json> Reader::manifest() const {
  if (!state_->manifest) return std::nullopt;
  const files::Path path = path_ / kManifestName;
  return parse_json<CheckpointError>(files::read_text(path), path.string());
}

void Reader::read(std::vector<ReadRun> runs, const Peers& peers, Verify verify) const {
  const std::string what = fmt::format("cannot read {}", path_.string());
  std::vector<Located> reads;
  agree(peers, what, [&] {
    for (const auto& run : runs) reads.push_back(locate(*state_, run));
    std::sort(reads.begin(), reads.end(), [](const Located& a, const Located& b) {
      return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
    });
    if (!state_->manifest || verify == Verify::off) return std::string();
    const auto faults =
        check_pieces(path_, verify == Verify::full ? dealt_pieces(*state_->manifest, peers)
                                                   : own_pieces(*state_, reads));
    if (!faults.empty()) throw CheckpointError(fmt::format("{}", fmt::join(faults, "\n")));
    return std::string();
  });
  agree(peers, what, [&] {
    read_all(path_, *state_, reads);
    return std::string();
  });
}

}  // namespace coeus::checkpoint
