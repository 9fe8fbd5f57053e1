#pragma once
#include <vector>

#include "comm/communicator.h"
#include "core/flat_shard.h"

namespace coeus::train {

// Consecutive elements of a segment that this rank writes.
struct WrittenRun {
  std::size_t segment;          // index into the shard's section
  std::int64_t segment_offset;  // elements
  Tensor values;                // contiguous
};

// Cuts `values`, laid out like the shard, into what this rank writes. Columns that tp ranks hold in
// narrow slices are exchanged among them first, so that each writes whole rows: without that a
// matrix is a run for every row on every rank. Rows that a shard border cuts stay where they are.
// Collective over tp; copies are left to the rank that counts them.
std::vector<WrittenRun> row_blocks(const FlatShard& shard, const Tensor& values,
                                   comm::Communicator& tp);

}  // namespace coeus::train
