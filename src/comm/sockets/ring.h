#pragma once
#include <functional>

#include "comm/sockets/channel.h"

namespace coeus::comm {

// Elements [begin, begin + count) of a tensor.
struct Range {
  std::int64_t begin = 0, count = 0;
};
using Slices = std::vector<Range>;  // one for each rank

Slices cut_evenly(std::int64_t count, int ranks);

// Slice d travels from rank d+1 around the ring to rank d and collects each rank's part on the way,
// in pieces, so that sending, adding and receiving overlap. `store` gets this rank's slice piece by
// piece, in accumulation_dtype.
using StorePiece = std::function<void(const Range& piece, const std::byte* accumulated)>;
void ring_reduce(Channel& channel, const std::byte* input, const Slices& slices, const Tensor& keep,
                 const StorePiece& store);
// Each rank's slice of `data` goes around the ring to all others.
void ring_gather(Channel& channel, std::byte* data, const Slices& slices, const Tensor& keep);
// From the root to its right neighbour and on, in pieces.
void ring_broadcast(Channel& channel, std::byte* data, std::int64_t count, int root,
                    const Tensor& keep);
// log2(ranks) rounds of empty messages over growing distances.
void dissemination_barrier(Channel& channel);

}  // namespace coeus::comm
