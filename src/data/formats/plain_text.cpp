#include "base/error.h"
#include "data/formats/format.h"
#include "data/utf8.h"

namespace coeus::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The whole file is one document. NUL and carriage returns are text like any other.
void read_plain_text(const files::MappedFile& file, ByteRange range, const std::string&,
                     const std::function<void(std::string_view)>& document) {
  const std::string_view all = file.text();
  const std::size_t invalid = utf8::find_invalid(all);
  if (invalid != all.size()) {
    throw DataError(fmt::format("{}: not valid UTF-8 at byte {}", line_of(file, invalid), invalid));
  }
  std::string_view text = all.substr(range.begin, range.end - range.begin);
  if (range.begin == 0 && text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  document(text);
}

}  // namespace

constinit const TextFormat kPlainText{".txt", TextFormat::Cut::nowhere, read_plain_text};
constinit const TextFormat kMarkdown{".md", TextFormat::Cut::nowhere, read_plain_text};

}  // namespace coeus::data
