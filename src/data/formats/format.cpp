#include "data/formats/format.h"

#include <algorithm>

#include "base/error.h"

namespace coeus::data {
namespace {

constexpr std::string_view kShardSuffix = ".tokens";
constexpr const TextFormat* kTextFormats[] = {&kPlainText, &kMarkdown, &kJsonLines};
constexpr std::string_view kPlanned[] = {".jsonl.gz", ".jsonl.zst", ".parquet", ".bin",
                                         ".idx",      ".npy",       ".ds"};

}  // namespace

FileFormat format_of(const files::Path& path, const std::string& where) {
  const std::string name = path.filename().string();
  if (name.ends_with(kShardSuffix)) return {FileKind::shard};
  for (const TextFormat* format : kTextFormats) {
    if (name.ends_with(format->suffix)) return {FileKind::text, format};
  }
  const std::string start = where + path.string() + ": ";
  for (const std::string_view suffix : kPlanned) {
    if (name.ends_with(suffix)) {
      throw DataError(fmt::format("{}{} files are not supported yet", start, suffix));
    }
  }
  throw DataError(start + "not a kind of data that can be read (.txt .md .jsonl .tokens)");
}

std::string line_of(const files::MappedFile& file, std::uint64_t byte) {
  const std::string_view before = file.text().substr(0, byte);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return fmt::format("{}:{}", file.path().string(), line);
}

}  // namespace coeus::data
