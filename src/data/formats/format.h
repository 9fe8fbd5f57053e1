#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace coeus::data {

struct ByteRange {
  std::uint64_t begin, end;
};

// A kind of raw text file.
struct TextFormat {
  enum class Cut { nowhere, anywhere };  // anywhere: a document belongs to the range it begins in

  std::string_view suffix;
  Cut cut;
  // Calls `document` for each document of the range, in order. Throws DataError: file:line: what is
  // wrong.
  void (*read)(const files::MappedFile& file, ByteRange range, const std::string& text_key,
               const std::function<void(std::string_view)>& document);
};

enum class FileKind { text, shard };
struct FileFormat {
  FileKind kind;
  const TextFormat* text = nullptr;
};
// By suffix. Throws DataError naming the file when Coeus cannot read it (yet), after `where` of the
// configuration.
FileFormat format_of(const files::Path& path, const std::string& where);

extern const TextFormat kPlainText, kMarkdown, kJsonLines;

// "file:line", the line that holds this byte.
std::string line_of(const files::MappedFile& file, std::uint64_t byte);

}  // namespace coeus::data
