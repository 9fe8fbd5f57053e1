#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/shard.h"

namespace coeus::data {

using Shards = std::vector<std::shared_ptr<const TokenShard>>;

// Some of the tokens of some shards, one after the other. Immutable.
class TokenStream {
 public:
  struct Extent {
    std::uint32_t shard;
    std::int64_t begin, count;  // within the shard
  };

  static TokenStream whole(Shards shards);
  TokenStream(Shards shards, const std::vector<Extent>& extents);

  std::int64_t num_tokens() const { return num_tokens_; }
  void read(std::int64_t begin, std::span<std::int64_t> into) const;
  // Calls document(begin, count) for each document, in the stream's own positions.
  void for_each_document(const std::function<void(std::int64_t, std::int64_t)>& document) const;

 private:
  struct Run {
    std::int64_t stream_begin, shard_begin;
    std::uint32_t shard;
  };
  std::int64_t end_of(std::size_t run) const {
    return run + 1 < runs_.size() ? runs_[run + 1].stream_begin : num_tokens_;
  }

  Shards shards_;
  std::vector<Run> runs_;
  std::int64_t num_tokens_ = 0;
};

enum class Part { kept, held_out };
// Holds out about that fraction of the documents, by a hash of text and seed, but at least one and
// never all; of a single document its tail.
TokenStream split_documents(Shards shards, double fraction, std::int64_t seed, Part part);

}  // namespace coeus::data
