#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "layout/flat_layout.h"

namespace coeus {

// What a unit hands the optimizer: this rank's flat part of one section.
struct FlatShard {
  std::string unit;
  const FlatSection* section = nullptr;
  std::int64_t shard_index = 0;
  Tensor master;   // [shard_elements] fp32
  Tensor grad;     // [shard_elements] fp32; valid after the last reduction of a step
  Tensor compute;  // [shard_elements] what the next unshard sends; the same tensor as master where
                   // the compute dtype is fp32
  std::vector<SegmentRun> runs;  // which elements are which segment's; the rest is padding
  // [begin, end) of the elements that count for the whole model: no copies that other ranks count.
  std::vector<std::pair<std::int64_t, std::int64_t>> counted;
  bool counts(const SegmentRun& run) const {
    return !counted.empty() && section->segments[run.segment].part.copy == 0;
  }
};

}  // namespace coeus
