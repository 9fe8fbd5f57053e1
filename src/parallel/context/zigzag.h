#pragma once
#include <array>
#include <vector>

#include "nn/attention/block.h"

// The order of context_token_index as spans and tensors.
namespace coeus::parallel {

struct Chunk {
  nn::Span tokens;
  std::int64_t row = 0;  // of its first token in the rank's tensors
};
std::array<Chunk, 2> chunks_of(std::int64_t rank, std::int64_t degree, std::int64_t chunk_length);

// A block that is not empty, and where its tokens lie.
struct PlacedBlock {
  nn::Block block;
  std::int64_t query_row = 0, key_row = 0;
};
std::vector<PlacedBlock> blocks_between(const Chunk& queries, const Chunk& keys,
                                        const nn::AttentionMask& mask);

// [n, B, T, …] by rank -> [B, L, …] by token, and back.
Tensor to_sequence_order(const Tensor& by_rank);
Tensor to_rank_order(const Tensor& by_token, std::int64_t degree);

// The context as this rank's blocks need it. Refuses one that does not fit T local tokens of
// `degree` ranks.
nn::AttentionContext whole_context(nn::AttentionContext context, std::int64_t num_local_tokens,
                                   std::int64_t degree, std::int64_t rank);

}  // namespace coeus::parallel
