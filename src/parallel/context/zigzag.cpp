#include "parallel/context/zigzag.h"

#include "base/error.h"
#include "core/torch.h"
#include "parallel/context/context.h"

namespace coeus::parallel {
namespace {

// Where a chunk lies: its rank, and whether it is that rank's first or second.
struct Place {
  std::int64_t rank, half;
};
Place place_of(std::int64_t chunk, std::int64_t degree) {
  return chunk < degree ? Place{chunk, 0} : Place{2 * degree - 1 - chunk, 1};
}

}  // namespace

std::array<Chunk, 2> chunks_of(std::int64_t rank, std::int64_t degree, std::int64_t chunk_length) {
  const auto chunk = [&](std::int64_t index, std::int64_t row) {
    return Chunk{{index * chunk_length, (index + 1) * chunk_length}, row};
  };
  return {chunk(rank, 0), chunk(2 * degree - 1 - rank, chunk_length)};
}

std::vector<PlacedBlock> blocks_between(const Chunk& queries, const Chunk& keys,
                                        const nn::AttentionMask& mask) {
  const auto block = nn::clip({queries.tokens, keys.tokens}, mask);
  if (!block) return {};
  return {PlacedBlock{.block = *block,
                      .query_row = queries.row + block->queries.begin - queries.tokens.begin,
                      .key_row = keys.row + block->keys.begin - keys.tokens.begin}};
}

Tensor to_sequence_order(const Tensor& by_rank) {
  const auto degree = by_rank.size(0), chunk = by_rank.size(2) / 2;
  std::vector<Tensor> chunks;
  for (std::int64_t c = 0; c < 2 * degree; ++c) {
    const Place at = place_of(c, degree);
    chunks.push_back(by_rank[at.rank].narrow(1, at.half * chunk, chunk));
  }
  return at::cat(chunks, 1);
}

Tensor to_rank_order(const Tensor& by_token, std::int64_t degree) {
  const auto chunk = by_token.size(1) / (2 * degree);
  auto sizes = by_token.sizes().vec();
  sizes[1] = 2 * chunk;
  sizes.insert(sizes.begin(), degree);
  const Tensor by_rank = at::empty(sizes, by_token.options());
  for (std::int64_t c = 0; c < 2 * degree; ++c) {
    const Place at = place_of(c, degree);
    by_rank[at.rank].narrow(1, at.half * chunk, chunk).copy_(by_token.narrow(1, c * chunk, chunk));
  }
  return by_rank;
}

nn::AttentionContext whole_context(nn::AttentionContext context, std::int64_t num_local_tokens,
                                   std::int64_t degree, std::int64_t rank) {
  const auto length = num_local_tokens * degree;
  COEUS_ASSERT(num_local_tokens % 2 == 0 && (context.sequence_length == length),
               "{} tokens on each of {} ranks for sequences of {}", num_local_tokens, degree,
               context.sequence_length);
  // On a device the host would have to wait for it.
  if (context.token_index.defined() && context.token_index.is_cpu()) {
    const Tensor expected = at::tensor(context_token_index(length, degree, rank), at::kLong);
    COEUS_ASSERT(context.token_index.equal(expected), "tokens in another order than zig-zag");
  }
  context.token_index = Tensor();
  context.positions = Tensor();
  return context;
}

}  // namespace coeus::parallel
