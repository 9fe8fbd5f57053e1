#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layout/segments.h"

namespace coeus {

inline constexpr std::int64_t kFlatAlignment =
    128;  // elements; parameter starts and shard boundaries

// A run of one segment inside one rank's shard. Of a segment cut by columns each row is a run.
struct SegmentRun {
  std::size_t segment;          // index into FlatSection::segments
  std::int64_t segment_offset;  // first element, in the segment's row-major order
  std::int64_t shard_offset;    // first element, in the shard
  std::int64_t count;
};

// The parameters of one unit that share a dtype, laid out one after another in a flat buffer that
// `group` ranks shard evenly. Shard boundaries ignore parameter borders. What no parameter covers
// is padding.
struct FlatSection {
  struct PlacedSegment {
    Segment segment;
    std::int64_t offset;  // first element in the flat buffer
    Part part;
    std::int64_t count;  // elements of the part
  };
  // A range of the flat buffer whose gradients the ranks that hold copies of it must add up.
  struct SummedRange {
    std::int64_t begin, end, copies;
  };
  struct PlacedParameter {
    std::string fqn;
    std::int64_t offset, count;
  };
  ComputeType compute = ComputeType::compute;
  std::vector<PlacedParameter> parameters;
  std::vector<PlacedSegment> segments;
  std::int64_t num_elements = 0;  // padded to group · kFlatAlignment
  std::int64_t group = 1;
  std::int64_t shard_elements() const { return num_elements / group; }
  std::vector<SegmentRun> runs(std::int64_t shard_index) const;
  std::vector<SummedRange> summed_ranges() const;  // in order, neighbours joined
  // The elements of a shard that count for the whole model: all but copies. Padding between them
  // is among them: it is zero.
  std::vector<std::pair<std::int64_t, std::int64_t>> counted(std::int64_t shard_index) const;
};

// One section per ComputeType that occurs, in order of first use.
std::vector<FlatSection> flat_layout(const std::vector<ParameterSpec>& parameters,
                                     std::int64_t group);

}  // namespace coeus
