#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's alphabet: byte-level vocabularies spell each byte as one printable character.
namespace coeus::data {

// Bytes 33–126, 161–172 and 174–255 stand for themselves; the other 68, in ascending order, for
// U+0100 and on.
std::string spell_bytes(std::string_view bytes);

// The bytes that such a spelling stands for; nothing when a character is outside the alphabet.
std::optional<std::string> read_spelling(std::string_view spelling);

}  // namespace coeus::data
