#pragma once
#include <memory>
#include <mutex>

#include "data/tokenizer.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/pre_tokenizer.h"
#include "data/tokenizers/special_ids.h"

namespace coeus::data {

// Byte-level byte pair encoding as a Hugging Face tokenizer.json describes it; ids equal to Hugging
// Face's.
class HfTokenizer : public Tokenizer {
 public:
  // `files`: name -> bytes, a tokenizer.json among them; `where` names it in messages.
  HfTokenizer(std::vector<std::pair<std::string, std::string>> files, const std::string& where);
  ~HfTokenizer() override;

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(const std::vector<std::int32_t>& ids) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<std::int32_t> bos_id() const override { return special_.bos; }
  std::optional<std::int32_t> eos_id() const override { return special_.eos; }
  bool adds_bos() const override { return special_.adds_bos; }
  std::string hash() const override { return hash_; }
  std::vector<std::pair<std::string, std::string>> files() const override { return files_; }

 private:
  struct Model;
  struct Scratch;
  struct DecodedToken {
    std::string bytes;
    bool special = false;
  };
  class Borrowed;

  void fill_decoding(const std::vector<AddedToken>& added);
  void encode_word(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void compute_hash(const std::vector<AddedToken>& added);
  void choose_files(const std::vector<AddedToken>& added);

  std::string where_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::unique_ptr<const Model> model_;
  std::vector<DecodedToken> tokens_;  // by id
  SpecialIds special_;
  std::string hash_;
  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_scratch_;  // one for each encode under way
};

}  // namespace coeus::data
