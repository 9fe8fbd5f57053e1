#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coeus::data::utf8 {

struct Character {
  std::uint32_t code_point;
  std::size_t length;  // in bytes
};
// The character that begins at `at`; an invalid sequence is U+FFFD, as long as Unicode's maximal
// subpart.
Character character_at(std::string_view text, std::size_t at);

// Where the first byte lies that is not part of valid UTF-8; text.size() when all is valid.
std::size_t find_invalid(std::string_view text);

// Each invalid sequence becomes one U+FFFD.
std::string replace_invalid(std::string text);

}  // namespace coeus::data::utf8
