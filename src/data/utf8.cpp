#include "data/utf8.h"

#include <cstring>

namespace coeus::data::utf8 {
namespace {

// What may follow a lead byte: how many bytes in all, and the bounds of the second (Unicode, table
// 3-7).
struct Lead {
  std::size_t length;
  unsigned low = 0x80, high = 0xBF;
};
Lead lead_of(unsigned byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte < 0xF0) return {3, byte == 0xE0 ? 0xA0u : 0x80u, byte == 0xED ? 0x9Fu : 0xBFu};
  if (byte < 0xF5) return {4, byte == 0xF0 ? 0x90u : 0x80u, byte == 0xF4 ? 0x8Fu : 0xBFu};
  return {0};
}

constexpr std::uint32_t kReplacement = 0xFFFD;

struct Decoded {
  Character character;
  bool valid;
};
Decoded decode(std::string_view text, std::size_t at) {
  const unsigned first = static_cast<unsigned char>(text[at]);
  const Lead lead = lead_of(first);
  if (lead.length == 1) return {{first, 1}, true};
  if (lead.length == 0) return {{kReplacement, 1}, false};
  std::uint32_t code_point = first & (0x7Fu >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    const unsigned byte = at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
    const bool follows =
        i == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xBF;
    if (!follows) return {{kReplacement, i}, false};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {{code_point, lead.length}, true};
}

// The first position from `at` on whose eight bytes are not all ASCII.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080ull) break;
  }
  return at;
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  return decode(text, at).character;
}

std::size_t find_invalid(std::string_view text) {
  std::size_t at = 0;
  while ((at = skip_ascii(text, at)) < text.size()) {
    const Decoded next = decode(text, at);
    if (!next.valid) return at;
    at += next.character.length;
  }
  return text.size();
}

std::string replace_invalid(std::string text) {
  std::size_t at = find_invalid(text);
  if (at == text.size()) return text;
  std::string result(text, 0, at);
  while (at < text.size()) {
    const Decoded next = decode(text, at);
    result.append(next.valid ? std::string_view(text).substr(at, next.character.length)
                             : std::string_view("\xEF\xBF\xBD"));
    at += next.character.length;
  }
  return result;
}

}  // namespace coeus::data::utf8
