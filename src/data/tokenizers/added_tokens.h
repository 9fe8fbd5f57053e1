#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coeus::data {

// A token that is found in the text as it stands, before any cutting into words.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special, left_strip, right_strip, normalized;
};

// Finds added tokens in a text: the leftmost, of those the longest.
class AddedTokens {
 public:
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  // Calls text(std::string_view) and token(std::int32_t) in order.
  template <class Text, class Token>
  void split(std::string_view input, Text&& text, Token&& token) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < input.size();) {
      const AddedToken* found = find(input, at);
      if (found == nullptr) break;
      const std::size_t end = at + found->content.size();
      const std::size_t begin = found->left_strip ? strip_left(input, done, at) : at;
      if (begin > done) text(input.substr(done, begin - done));
      token(found->id);
      done = found->right_strip ? strip_right(input, end) : end;
      at = done;
    }
    if (done < input.size()) text(input.substr(done));
  }

 private:
  // The next token from `at` on; moves `at` to it.
  const AddedToken* find(std::string_view input, std::size_t& at) const;
  static std::size_t strip_left(std::string_view input, std::size_t begin, std::size_t end);
  static std::size_t strip_right(std::string_view input, std::size_t begin);

  struct Node {
    unsigned char byte;
    std::int32_t token = -1, child = -1, sibling = -1;
  };
  std::int32_t child_of(std::int32_t node, unsigned char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;              // a trie of their contents
  std::array<std::int32_t, 256> roots_;  // by first byte; -1: no token begins so
};

}  // namespace coeus::data
