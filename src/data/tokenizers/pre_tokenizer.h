#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/tokenizers/regex.h"

namespace coeus::data {

// Cuts a text into the words that byte pair encoding sees: the pre_tokenizer of a tokenizer.json
// whose last part is ByteLevel.
class PreTokenizer {
 public:
  // Throws DataError naming `where` and the part that is not supported.
  PreTokenizer(const Json& pre_tokenizer, const std::string& where);

  // Words in order; each is valid until `word` returns.
  template <class Word>
  void split(MatchScratch& scratch, std::string_view text, Word&& word) const {
    split_from(0, scratch, text, std::forward<Word>(word));
  }
  std::string description() const;  // of everything that changes words

 private:
  enum class Behavior { removed, isolated, with_previous, with_next, contiguous };
  struct Stage {
    std::optional<Regex> pattern;  // absent: no cut here
    Behavior behavior = Behavior::isolated;
    bool invert = false;  // the pattern describes the pieces, not what separates them
    bool prefix_space = false;
  };
  struct Piece {
    std::size_t begin, end;
    bool is_match;
  };

  void add(const Json& part, const std::string& where);
  void add_split(const Json& part, const std::string& where);

  template <class Word>
  void split_from(std::size_t stage, MatchScratch& scratch, std::string_view text,
                  Word&& word) const;
  template <class Emit>
  void cut(const Stage& stage, MatchScratch& scratch, std::string_view text, Emit&& emit) const;

  std::vector<Stage> stages_;
  bool byte_level_ = false;
};

template <class Emit>
void PreTokenizer::cut(const Stage& stage, MatchScratch& scratch, std::string_view text,
                       Emit&& emit) const {
  // `held` is the piece that may still grow, by the behaviors that join pieces.
  std::optional<Piece> held;
  const auto flush = [&] {
    if (held && held->end > held->begin) emit(text.substr(held->begin, held->end - held->begin));
    held.reset();
  };
  const auto take = [&](std::size_t begin, std::size_t end, bool matched) {
    if (begin == end) return;
    const bool is_match = matched != stage.invert;
    const auto join = [&](bool joins) {
      if (held && joins) {
        held->end = end;
        held->is_match = is_match;
      } else {
        flush();
        held = Piece{begin, end, is_match};
      }
    };
    switch (stage.behavior) {
      case Behavior::removed:
        if (!is_match) emit(text.substr(begin, end - begin));
        break;
      case Behavior::isolated:
        emit(text.substr(begin, end - begin));
        break;
      case Behavior::with_previous:
        join(is_match && held && !held->is_match);
        break;
      case Behavior::with_next:
        join(!is_match && held && held->is_match);
        break;
      case Behavior::contiguous:
        join(held && held->is_match == is_match);
        break;
    }
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = stage.pattern->find(scratch, text, at);
    if (!match) break;
    take(at, match->begin, false);
    take(match->begin, match->end, true);
    at = match->end;
  }
  take(at, text.size(), false);
  flush();
}

template <class Word>
void PreTokenizer::split_from(std::size_t stage, MatchScratch& scratch, std::string_view text,
                              Word&& word) const {
  if (stage == stages_.size()) {
    word(text);
    return;
  }
  const auto& current = stages_[stage];
  const auto go_on = [&](std::string_view piece) { split_from(stage + 1, scratch, piece, word); };
  const auto cut_here = [&](std::string_view piece) {
    if (current.pattern) {
      cut(current, scratch, piece, go_on);
    } else {
      go_on(piece);
    }
  };
  if (current.prefix_space && !text.starts_with(' ')) {
    cut_here(" " + std::string(text));
  } else {
    cut_here(text);
  }
}

}  // namespace coeus::data
