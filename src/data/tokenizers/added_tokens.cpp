#include "data/tokenizers/added_tokens.h"

#include "data/utf8.h"

namespace coeus::data {
namespace {

bool is_space(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) : tokens_(tokens) {
  roots_.fill(-1);
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    std::int32_t node = -1;
    for (const char c : tokens_[t].content) {
      const auto byte = static_cast<unsigned char>(c);
      std::int32_t next = node < 0 ? roots_[byte] : child_of(node, byte);
      if (next < 0) {
        next = static_cast<std::int32_t>(nodes_.size());
        nodes_.push_back({.byte = byte});
        if (node < 0) {
          roots_[byte] = next;
        } else {
          nodes_[next].sibling = nodes_[node].child;
          nodes_[node].child = next;
        }
      }
      node = next;
    }
    if (node >= 0) nodes_[node].token = static_cast<std::int32_t>(t);
  }
}

std::int32_t AddedTokens::child_of(std::int32_t node, unsigned char byte) const {
  std::int32_t child = nodes_[node].child;
  while (child >= 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

const AddedToken* AddedTokens::find(std::string_view input, std::size_t& at) const {
  for (; at < input.size(); ++at) {
    std::int32_t node = roots_[static_cast<unsigned char>(input[at])];
    std::int32_t longest = -1;
    for (std::size_t i = at + 1; node >= 0; ++i) {
      if (nodes_[node].token >= 0) longest = nodes_[node].token;
      if (i == input.size()) break;
      node = child_of(node, static_cast<unsigned char>(input[i]));
    }
    if (longest >= 0) return &tokens_[longest];
  }
  return nullptr;
}

std::size_t AddedTokens::strip_left(std::string_view input, std::size_t begin, std::size_t end) {
  while (end > begin) {
    std::size_t start = end - 1;
    while (start > begin && (static_cast<unsigned char>(input[start]) & 0xC0) == 0x80) --start;
    if (!is_space(utf8::character_at(input, start).code_point)) break;
    end = start;
  }
  return end;
}

std::size_t AddedTokens::strip_right(std::string_view input, std::size_t begin) {
  while (begin < input.size()) {
    const utf8::Character c = utf8::character_at(input, begin);
    if (!is_space(c.code_point)) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace coeus::data
