#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/token_stream.h"

namespace coeus::data {

// Part of a document, at most one sample long.
struct Piece {
  std::int64_t begin;  // in the stream
  std::int32_t count;  // tokens
  bool ends_document;  // else the token after it is the last label
};

// Which pieces share a sample. A function of the stream and the length alone.
class DocumentPacking {
 public:
  enum class Fill { together, alone };  // alone: one piece a sample
  DocumentPacking(const TokenStream& stream, std::int64_t sequence_length, Fill fill);

  std::int64_t num_samples() const { return std::ssize(ends_); }
  std::span<const Piece> sample(std::int64_t index) const;

 private:
  void pack(std::vector<Piece>& window, std::int64_t sequence_length);

  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> ends_;  // in pieces_, of each sample
};

}  // namespace coeus::data
