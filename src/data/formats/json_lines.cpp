#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "data/formats/format.h"

namespace coeus::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// A line is one document: an object whose `text_key` holds the text. Blank lines, CRLF and a byte
// order mark are let pass; everything else that is not such an object is an error.
void read_json_lines(const files::MappedFile& file, ByteRange range, const std::string& text_key,
                     const std::function<void(std::string_view)>& document) {
  const std::string_view all = file.text();
  std::uint64_t at = range.begin;
  if (at > 0) {
    const std::size_t newline = all.find('\n', at - 1);
    if (newline == std::string_view::npos) return;
    at = newline + 1;
  } else if (all.starts_with(kByteOrderMark)) {
    at = kByteOrderMark.size();
  }
  while (at < range.end && at < all.size()) {
    const std::size_t newline = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, newline - at);
    if (!is_blank(line)) {
      std::optional<std::string> fault;
      const Json object = parse_json(line, fault);
      const auto fail = [&](const std::string& what) {
        throw DataError(line_of(file, at) + ": " + what);
      };
      if (fault) fail(*fault);
      if (!object.is_object()) fail("not a JSON object");
      const auto found = object.find(text_key);
      if (found == object.end()) fail("no key '" + text_key + "' (data.text_key)");
      if (!found->is_string()) fail("'" + text_key + "' is not a string");
      document(found->get_ref<const std::string&>());
    }
    at = newline + 1;
  }
}

}  // namespace

constinit const TextFormat kJsonLines{".jsonl", TextFormat::Cut::anywhere, read_json_lines};

}  // namespace coeus::data
