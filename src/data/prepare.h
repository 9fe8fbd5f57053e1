#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/config.h"
#include "data/formats/format.h"
#include "data/tokenizer.h"

namespace coeus::data {

struct PrepareOptions {
  std::string cache;
  std::string text_key;
  BosPolicy bos = BosPolicy::automatic;
  bool eos = true;
  std::int64_t threads = 0;                           // 0: one a core
  std::uint64_t part_bytes = std::uint64_t{8} << 20;  // text of one shard, about
};

// The raw text of one source: files in order, and what of their state names the cache.
class RawText {
 public:
  // `where` begins the messages about a file that cannot be read.
  RawText(std::vector<files::Path> paths, const std::string& where);

  std::uint64_t bytes() const { return bytes_; }
  // Where its shards lie or will lie: the same for the same files, tokenizer and options.
  files::Path folder(const PrepareOptions& options, const Tokenizer& tokenizer) const;
  bool is_prepared(const PrepareOptions& options, const Tokenizer& tokenizer) const;
  // Tokenizes into that folder unless it is there. One process of a machine does it, others wait;
  // after a kill the whole shards that it left are taken over. The bytes do not depend on the
  // number of threads.
  void prepare(const PrepareOptions& options, const Tokenizer& tokenizer) const;

 private:
  struct File {
    files::Path path;
    std::uint64_t bytes;
    std::int64_t modified;
    const TextFormat* format;
  };
  struct Span {
    std::size_t file;
    ByteRange range;
  };
  struct Part {
    std::vector<Span> spans;
    std::uint64_t bytes = 0;
  };
  class Job;

  std::vector<Part> cut(std::uint64_t part_bytes) const;
  void check_unchanged() const;

  std::vector<File> files_;
  std::uint64_t bytes_ = 0;
};

// The shards of a folder that prepare() finished, in order.
std::vector<files::Path> shards_of(const files::Path& folder);

// Throws DataError when the tokenizer lacks a token that the options ask for.
void check_special_tokens(const PrepareOptions& options, const Tokenizer& tokenizer);

std::uint64_t hash_of(const Tokenizer& tokenizer);  // as shards hold it

}  // namespace coeus::data
