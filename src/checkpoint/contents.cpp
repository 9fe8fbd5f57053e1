#include "checkpoint/contents.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/step_name.h"

namespace coeus::checkpoint {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kExtension = ".safetensors";

// "optimizer/master-00002-of-00003.safetensors" is part 2 of 3 of the set optimizer/master.
struct Part {
  std::string set;
  int index = 1, count = 1;
};

Part parse_part(std::string_view name) {
  name.remove_suffix(kExtension.size());
  constexpr std::size_t kDigits = 5, kSuffix = sizeof "-00001-of-00001" - 1;
  Part part{std::string(name), 1, 1};
  if (name.size() <= kSuffix) return part;
  const std::string_view suffix = name.substr(name.size() - kSuffix);
  const auto number = [&](std::size_t at, int& into) {
    const char* begin = suffix.data() + at;
    return std::from_chars(begin, begin + kDigits, into).ptr == begin + kDigits;
  };
  int index = 0, count = 0;
  if (suffix[0] == '-' && suffix.substr(1 + kDigits, 4) == "-of-" && number(1, index) &&
      number(suffix.size() - kDigits, count)) {
    name.remove_suffix(kSuffix);
    part = {std::string(name), index, count};
  }
  return part;
}

class ContentsReader {
 public:
  explicit ContentsReader(const files::Path& folder) : folder_(folder) {}

  Contents read() {
    if (!files::is_directory(folder_)) fail("no such folder");
    if (files::exists(folder_ / kManifestName)) {
      read_step_folder();
    } else if (is_step_folder(folder_)) {
      fail("no manifest.json: the save was cut short, or the file was lost");
    } else {
      read_hf_folder();
    }
    return std::move(contents_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(fmt::format("{}: {}", folder_.string(), what));
  }

  void read_step_folder() {
    contents_.manifest = Manifest::load(folder_);
    check_sizes();
    contents_.config = read_listed("config.json");
    if (contents_.manifest->find("train_state.json")) {
      contents_.train_state = read_listed("train_state.json");
    }
    std::map<std::string, std::vector<Part>> parts;
    for (const auto& f : contents_.manifest->files) {
      if (!f.name.ends_with(kExtension)) continue;
      const Part part = parse_part(f.name);
      parts[part.set].push_back(part);
      add_file(part.set, f.name, nullptr);
    }
    for (auto& [set, list] : parts) {
      std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.index < b.index; });
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].index != static_cast<int>(i + 1) ||
            list[i].count != static_cast<int>(list.size())) {
          fail(fmt::format("{}: file {} of {} is missing", set, i + 1, list[i].count));
        }
      }
    }
    if (!contents_.sets.contains("model")) fail("no model files");
  }

  void check_sizes() const {
    std::vector<std::string> faults;
    for (const auto& f : contents_.manifest->files) {
      if (auto fault = check_size(folder_, f)) {
        faults.push_back(fmt::format("{}: {}", folder_.string(), *fault));
      }
    }
    if (!faults.empty()) throw CheckpointError(fmt::format("{}", fmt::join(faults, "\n")));
  }

  Json read_listed(const std::string& name) const {
    const ManifestFile* listed = contents_.manifest->find(name);
    if (!listed) fail(fmt::format("{} is not in the manifest", name));
    std::vector<Piece> pieces;
    for (const auto& run : listed->runs) pieces.push_back({listed, &run});
    for (const auto& fault : check_pieces(folder_, pieces)) fail(fault);
    return read_json(name);
  }

  Json read_json(const std::string& name) const {
    const files::Path path = folder_ / name;
    if (!files::exists(path)) fail(fmt::format("no {}", name));
    return parse_json<CheckpointError>(files::read_text(path), path.string());
  }

  void read_hf_folder() {
    contents_.config = read_json("config.json");
    if (files::exists(folder_ / kModelFile)) {
      add_file("model", kModelFile, nullptr);
    } else if (files::exists(folder_ / kIndexFile)) {
      read_index();
    } else {
      fail(fmt::format("neither {} nor {}", kModelFile, kIndexFile));
    }
  }

  void read_index() {
    const Json index = read_json(kIndexFile);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      fail(fmt::format("{}: no weight_map", kIndexFile));
    }
    std::unordered_map<std::string, std::string> file_of;
    std::vector<std::string> names;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      if (!name.ends_with(kExtension) || name.find('/') != std::string::npos) {
        fail(fmt::format("{}: {} lies in {}, no safetensors file of this folder", kIndexFile,
                         tensor, file.dump()));
      }
      file_of[tensor] = name;
      names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const auto& name : names) add_file("model", name, &file_of);
    for (const auto& [tensor, name] : file_of) {
      if (!contents_.sets["model"].places.contains(tensor)) {
        fail(fmt::format("{}: {} has no tensor {}", kIndexFile, name, tensor));
      }
    }
  }

  // With `file_of`, only the tensors that it assigns to this file.
  void add_file(const std::string& set_name, const std::string& name,
                const std::unordered_map<std::string, std::string>* file_of) {
    const auto header = read_safetensors_header(files::File::open_to_read(folder_ / name));
    Contents::Set& set = contents_.sets[set_name];
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
      const TensorInfo& t = header.tensors[i];
      if (file_of) {
        const auto assigned = file_of->find(t.name);
        if (assigned == file_of->end() || assigned->second != name) continue;
      }
      const Contents::Place place{set.tensors.size(), contents_.files.size(), header.offsets[i]};
      if (!set.places.emplace(t.name, place).second) {
        fail(fmt::format("{}: tensor {} is in another file too", name, t.name));
      }
      set.tensors.push_back(t);
    }
    contents_.files.push_back(name);
  }

  const files::Path& folder_;
  Contents contents_;
};

}  // namespace

Contents read_contents(const files::Path& folder) {
  try {
    return ContentsReader(folder).read();
  } catch (const FileError& e) {
    throw CheckpointError(e.what());
  }
}

bool is_step_folder(const files::Path& folder) {
  const files::Path path = folder.lexically_normal();
  return parse_step_name((path.has_filename() ? path : path.parent_path()).filename().string())
      .has_value();
}

}  // namespace coeus::checkpoint
