#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/bpe.h"

namespace coeus::data {

// What a tokenizer.json says, checked and with spellings turned back into bytes.
struct HfDescription {
  Vocabulary vocabulary;
  std::vector<std::pair<std::int32_t, std::string>> unspelled;  // entries outside the byte alphabet
  std::vector<Merge> merges;
  WholeWords whole_words = WholeWords::merge;
  std::vector<AddedToken> added;
  Json pre_tokenizer;
  Json rest;  // post_processor
};

// Throws DataError naming `where` and what is damaged or not supported.
HfDescription read_hf_description(const std::string& text, const std::string& where);

}  // namespace coeus::data
