#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace coeus::data {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
// Bytes of a token -> id.
using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

// Two tokens and the one they become. Their place in the list is the rank: the lowest goes first.
struct Merge {
  std::int32_t left, right, merged;
};

enum class WholeWords { merge, look_up };  // look_up: a word found in the vocabulary is not merged

// Byte pair encoding of single words. Immutable.
class BytePairs {
 public:
  static constexpr std::int32_t kNoToken = -1;

  BytePairs(Vocabulary vocabulary, const std::vector<Merge>& merges, WholeWords whole_words);

  // Buffers that one thread keeps between words.
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::int32_t previous, next;
    };
    struct Candidate {
      std::uint32_t rank;
      std::int32_t position, left, right, merged;
    };
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> ranks;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Appends the word's ids. False: a byte of it has no token.
  bool encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::uint64_t hash() const;

 private:
  struct Rule {
    std::uint64_t pair = kEmpty;
    std::uint32_t rank = kNoRank;
    std::int32_t merged = kNoToken;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  std::size_t slot_of(std::uint64_t pair) const;
  const Rule& rule_of(std::int32_t left, std::int32_t right) const;
  void merge_short(Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void merge_long(Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void push_candidate(Scratch& scratch, std::int32_t position) const;

  Vocabulary vocabulary_;
  WholeWords whole_words_;
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Rule> rules_;  // open addressing, a power of two
  std::uint64_t merges_hash_ = 0;
  bool has_merges_ = false;
};

}  // namespace coeus::data
