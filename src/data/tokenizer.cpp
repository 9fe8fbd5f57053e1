#include "data/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "data/tokenizers/byte.h"
#include "data/tokenizers/hf_tokenizer.h"

namespace coeus::data {
namespace {

using files::Path;

// Kinds of tokenizer, in the order they are tried; `open` gets what the user wrote.
struct Kind {
  bool (*applies)(const Path& path);
  std::shared_ptr<const Tokenizer> (*open)(const Path& path);
};

std::shared_ptr<const Tokenizer> open_bytes(const Path&) {
  return std::make_shared<HfTokenizer>(byte_tokenizer_files(), "tokenizer byte");
}

std::shared_ptr<const Tokenizer> open_json(const Path& path) {
  std::vector<std::pair<std::string, std::string>> found{
      {"tokenizer.json", files::read_text(path)}};
  if (path.filename() == "tokenizer.json") {  // beside another name the neighbours may be another's
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json",
                             "generation_config.json", "config.json"}) {
      const Path neighbour = path.parent_path() / name;
      if (files::exists(neighbour)) found.emplace_back(name, files::read_text(neighbour));
    }
  }
  return std::make_shared<HfTokenizer>(std::move(found), path.string());
}

constexpr Kind kKinds[] = {
    {[](const Path& path) { return path == "byte"; }, open_bytes},
    {[](const Path& path) { return files::exists(path / "tokenizer.json"); },
     [](const Path& path) { return open_json(path / "tokenizer.json"); }},
    {[](const Path& path) { return path.extension() == ".json" && files::exists(path); },
     open_json},
};

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  for (const Kind& kind : kKinds) {
    if (kind.applies(path)) return kind.open(path);
  }
  if (!files::exists(path)) throw DataError("tokenizer.path: " + path + " does not exist");
  throw DataError("tokenizer.path: " + path +
                  " is neither the word byte, nor a tokenizer.json, nor a folder that holds one");
}

}  // namespace coeus::data
