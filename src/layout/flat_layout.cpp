#include "layout/flat_layout.h"

#include <algorithm>

#include "base/error.h"

namespace coeus {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

FlatSection& section_for(std::vector<FlatSection>& sections, ComputeType compute) {
  for (auto& section : sections) {
    if (section.compute == compute) return section;
  }
  sections.emplace_back().compute = compute;
  return sections.back();
}

std::int64_t elements_of(const Segment& segment, const Part& part) {
  if (part.dim < 0) return segment.num_elements();
  const std::int64_t whole = segment.shape[static_cast<std::size_t>(part.dim)];
  return whole == 0 ? 0 : segment.num_elements() / whole * (part.end - part.begin);
}

void append(FlatSection& section, const ParameterSpec& parameter) {
  const std::int64_t start = round_up(section.num_elements, kFlatAlignment);
  std::int64_t offset = start;
  for (std::size_t i = 0; i < parameter.segments.size(); ++i) {
    const Part part = parameter.part(i);
    const std::int64_t count = elements_of(parameter.segments[i], part);
    section.segments.push_back({parameter.segments[i], offset, part, count});
    offset += count;
  }
  section.parameters.push_back({parameter.fqn, start, offset - start});
  section.num_elements = start + std::max(offset - start, parameter.reserved);
}

// Row-major elements of a whole segment that follow one another in its part, and their distance.
struct Rows {
  std::int64_t width, stride, first;
};

Rows rows_of(const FlatSection::PlacedSegment& s) {
  if (s.part.dim < 0) return {s.count, s.count, 0};
  std::int64_t inner = 1;
  for (std::size_t d = static_cast<std::size_t>(s.part.dim) + 1; d < s.segment.shape.size(); ++d)
    inner *= s.segment.shape[d];
  const std::int64_t width = (s.part.end - s.part.begin) * inner;
  return {width, s.segment.shape[static_cast<std::size_t>(s.part.dim)] * inner,
          s.part.begin * inner};
}

}  // namespace

std::vector<SegmentRun> FlatSection::runs(std::int64_t shard_index) const {
  COEUS_ASSERT(shard_index >= 0 && shard_index < group, "shard {} of {}", shard_index, group);
  const std::int64_t begin = shard_index * shard_elements(), end = begin + shard_elements();
  std::vector<SegmentRun> found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const PlacedSegment& s = segments[i];
    const Rows rows = rows_of(s);
    const std::int64_t to = std::min(s.offset + s.count, end);
    for (std::int64_t at = std::max(s.offset, begin); at < to;) {
      const std::int64_t row = (at - s.offset) / rows.width, in_row = (at - s.offset) % rows.width;
      const std::int64_t count = std::min(rows.width - in_row, to - at);
      found.push_back({i, rows.first + row * rows.stride + in_row, at - begin, count});
      at += count;
    }
  }
  return found;
}

std::vector<FlatSection::SummedRange> FlatSection::summed_ranges() const {
  std::vector<SummedRange> ranges;
  bool joined = false;
  for (const auto& s : segments) {
    if (!s.part.summed || s.part.copies == 1) {
      joined = joined && s.count == 0;
      continue;
    }
    if (joined && ranges.back().copies == s.part.copies) {
      ranges.back().end = s.offset + s.count;
    } else {
      ranges.push_back({s.offset, s.offset + s.count, s.part.copies});
    }
    joined = true;
  }
  return ranges;
}

std::vector<std::pair<std::int64_t, std::int64_t>> FlatSection::counted(
    std::int64_t shard_index) const {
  const std::int64_t begin = shard_index * shard_elements(), end = begin + shard_elements();
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  bool joined = false;
  for (const auto& s : segments) {
    const std::int64_t from = std::max(s.offset, begin), to = std::min(s.offset + s.count, end);
    if (from >= to) continue;
    if (s.part.copy == 0) {
      if (joined)
        ranges.back().second = to - begin;
      else
        ranges.emplace_back(from - begin, to - begin);
    }
    joined = s.part.copy == 0;
  }
  return ranges;
}

std::vector<FlatSection> flat_layout(const std::vector<ParameterSpec>& parameters,
                                     std::int64_t group) {
  COEUS_ASSERT(group >= 1, "a group of {}", group);
  std::vector<FlatSection> sections;
  for (const auto& parameter : parameters) {
    append(section_for(sections, parameter.compute), parameter);
  }
  for (auto& section : sections) {
    section.group = group;
    section.num_elements = round_up(section.num_elements, group * kFlatAlignment);
  }
  return sections;
}

}  // namespace coeus
