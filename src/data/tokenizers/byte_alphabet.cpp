#include "data/tokenizers/byte_alphabet.h"

#include "data/utf8.h"

namespace coeus::data {
namespace {

constexpr int kAlphabetEnd = 256 + 68;

struct Alphabet {
  std::array<std::uint16_t, 256> character_of{};
  std::array<std::int16_t, kAlphabetEnd> byte_of{};

  constexpr Alphabet() {
    for (auto& byte : byte_of) byte = -1;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const int character = itself ? b : next++;
      character_of[b] = static_cast<std::uint16_t>(character);
      byte_of[character] = static_cast<std::int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char c : bytes) {
    const unsigned character = kAlphabet.character_of[static_cast<unsigned char>(c)];
    if (character < 0x80) {
      spelling += static_cast<char>(character);
    } else {
      spelling += static_cast<char>(0xC0 | (character >> 6));
      spelling += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return spelling;
}

std::optional<std::string> read_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size();) {
    const utf8::Character c = utf8::character_at(spelling, i);
    if (c.code_point >= kAlphabetEnd || kAlphabet.byte_of[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of[c.code_point]);
    i += c.length;
  }
  return bytes;
}

}  // namespace coeus::data
