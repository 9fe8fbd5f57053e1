#include "checkpoint/manifest.h"

#include <charconv>

#include "base/error.h"

namespace coeus::checkpoint {
namespace {

constexpr std::string_view kHashKey = "\n\"xxh3\": \"";
constexpr std::string_view kTail = "\"\n}\n";
constexpr std::size_t kHexDigits = 16;
constexpr const char* kFormat = "coeus-checkpoint";

std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::uint64_t hash_of(std::string_view text) {
  return files::hash(std::as_bytes(std::span(text.data(), text.size())));
}

class ManifestParser {
 public:
  explicit ManifestParser(const files::Path& path) : path_(path) {}

  Manifest parse(std::string_view text) {
    check_own_hash(text);
    const Json json = parse_json<CheckpointError>(text, path_.string());
    if (!json.is_object() || json.value("format", Json()) != kFormat) fail("no Coeus manifest");
    const Json version = json.value("version", Json());
    if (version != kManifestVersion) {
      fail(fmt::format("format version {}, this Coeus reads {}", version.dump(), kManifestVersion));
    }
    Manifest m;
    m.step = static_cast<std::int64_t>(count(json.value("step", Json()), "step"));
    m.stamps = json.value("stamps", Json::object());
    const Json files = json.value("files", Json());
    if (!files.is_object()) fail("files is no object");
    for (const auto& [name, value] : files.items()) m.files.push_back(parse_file(name, value));
    return m;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(fmt::format("{}: {}", path_.string(), what));
  }

  // Over the raw text: whatever byte was changed, it shows.
  void check_own_hash(std::string_view text) const {
    const std::size_t tail = kHashKey.size() + kHexDigits + kTail.size();
    if (text.size() < tail || !text.ends_with(kTail)) fail("truncated or no Coeus manifest");
    const std::size_t at = text.size() - kTail.size() - kHexDigits;
    if (text.substr(at, kHexDigits) != hex(hash_of(text.substr(0, at)))) {
      fail("its own hash does not match: damaged or edited");
    }
  }

  std::uint64_t count(const Json& value, const std::string& what) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >> 62 != 0) {
      fail(fmt::format("{} holds {}, not a count", what, value.dump()));
    }
    return value.get<std::uint64_t>();
  }

  std::uint64_t parse_hash(const std::string& name, const Json& value) const {
    std::uint64_t hash = 0;
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const auto end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, hash, 16);
    if (text.size() != kHexDigits || parsed.ptr != end) fail(name + ": a run's hash is none");
    return hash;
  }

  ManifestFile parse_file(const std::string& name, const Json& value) const {
    const files::Path path(name);
    bool inside = !name.empty() && path.is_relative() && name.find('\0') == std::string::npos;
    for (const auto& part : path) inside = inside && part != "..";
    if (!inside) fail(fmt::format("{} is outside the folder", Json(name).dump()));
    if (!value.is_object() || !value.contains("runs") || !value["runs"].is_array()) {
      fail(name + ": no runs");
    }
    ManifestFile file{name, count(value.value("size", Json()), name + ": size"), {}};
    std::uint64_t end = 0;
    for (const auto& r : value["runs"]) {
      if (!r.is_array() || r.size() != 3) fail(name + ": a run is no triple");
      const Run run{count(r[0], name + ": a run"), count(r[1], name + ": a run"),
                    parse_hash(name, r[2])};
      if (run.offset != end || run.size > kMaxRunBytes) fail(name + ": the runs do not tile it");
      end += run.size;
      file.runs.push_back(run);
    }
    if (end != file.size) fail(name + ": the runs do not tile it");
    return file;
  }

  const files::Path& path_;
};

}  // namespace

std::string Manifest::to_text() const {
  std::string text = fmt::format(
      "{{\n\"format\": \"{}\",\n\"version\": {},\n\"step\": {},\n\"stamps\": {},\n\"files\": {{\n",
      kFormat, kManifestVersion, step, stamps.is_null() ? "{}" : stamps.dump());
  for (const auto& f : files) {
    text += fmt::format("{}: {{\"size\": {}, \"runs\": [", Json(f.name).dump(), f.size);
    for (const auto& r : f.runs) {
      text += fmt::format("{}[{}, {}, \"{}\"]", &r == f.runs.data() ? "" : ", ", r.offset, r.size,
                          hex(r.hash));
    }
    text += &f == &files.back() ? "]}\n" : "]},\n";
  }
  text += "},";
  text += kHashKey;
  text += hex(hash_of(text));
  text += kTail;
  return text;
}

Manifest Manifest::load(const files::Path& folder) {
  const files::Path path = folder / kManifestName;
  if (!files::exists(path)) {
    throw CheckpointError(fmt::format("{}: no {}", folder.string(), kManifestName));
  }
  try {
    return ManifestParser(path).parse(files::read_text(path));
  } catch (const FileError& e) {
    throw CheckpointError(e.what());
  }
}

const ManifestFile* Manifest::find(const std::string& name) const {
  for (const auto& f : files) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

std::vector<Run> runs_of(std::string_view text) {
  std::vector<Run> runs;
  for (std::uint64_t at = 0; at < text.size(); at += kMaxRunBytes) {
    const std::string_view part = text.substr(at, kMaxRunBytes);
    runs.push_back({at, part.size(), hash_of(part)});
  }
  return runs;
}

std::optional<std::string> check_size(const files::Path& folder, const ManifestFile& file) {
  try {
    const std::uint64_t size = files::File::open_to_read(folder / file.name).size();
    if (size == file.size) return std::nullopt;
    return fmt::format("{}: {} bytes, {} were written", file.name, size, file.size);
  } catch (const FileError& e) {
    return fmt::format("{}: {}", file.name, e.what());
  }
}

std::vector<std::string> check_pieces(const files::Path& folder, const std::vector<Piece>& pieces) {
  std::vector<std::string> faults;
  std::vector<std::byte> buffer;
  std::optional<files::File> open;
  const ManifestFile* current = nullptr;
  for (const auto& [file, run] : pieces) {
    try {
      if (file != current) {
        open.emplace(files::File::open_to_read(folder / file->name));
        current = file;
      }
      buffer.resize(run->size);
      open->read(run->offset, buffer);
      if (files::hash(buffer) == run->hash) continue;
      faults.push_back(fmt::format("{}: bytes {}..{} are not what was written (hash {} is not {})",
                                   file->name, run->offset, run->offset + run->size,
                                   hex(files::hash(buffer)), hex(run->hash)));
    } catch (const FileError& e) {
      current = nullptr;
      faults.push_back(fmt::format("{}: {}", file->name, e.what()));
    }
  }
  return faults;
}

}  // namespace coeus::checkpoint
