#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

// Coeus token shards (docs/formats/token_shard.md): the tokens of whole documents and a table of
// the documents.
namespace coeus::data {

struct Document {
  std::uint64_t num_tokens;
  std::uint64_t text_hash;  // of its text, which decides whether it is held out
};
static_assert(sizeof(Document) == 16);

// What is collected before it is written.
struct ShardContent {
  std::vector<std::int32_t> tokens;
  std::vector<Document> documents;
};

// Writes to a temporary neighbour, syncs and renames.
void write_shard(const files::Path& path, const ShardContent& content, std::int64_t vocab_size,
                 std::uint64_t tokenizer_hash);

class TokenShard {
 public:
  // Maps the file. Throws DataError naming it if it is foreign, damaged or truncated, before
  // anything is allocated.
  explicit TokenShard(const files::Path& path);

  const files::Path& path() const { return file_.path(); }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
  std::uint64_t content_hash() const { return content_hash_; }
  std::span<const Document> documents() const { return documents_; }

  // Copies into.size() tokens from `begin` on. Throws DataError for an id that is not below the
  // vocabulary's size.
  void read(std::int64_t begin, std::span<std::int64_t> into) const;
  // Reads everything: do the bytes have the hash that the header names, and do the lengths add up?
  bool is_intact() const;

 private:
  template <class Id>
  void copy(std::int64_t begin, std::span<std::int64_t> into) const;

  files::MappedFile file_;
  std::int64_t num_tokens_ = 0, vocab_size_ = 0;
  std::uint32_t bytes_per_token_ = 0;
  std::uint64_t tokenizer_hash_ = 0, content_hash_ = 0;
  std::span<const Document> documents_;
};

}  // namespace coeus::data
