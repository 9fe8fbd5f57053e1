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

void append(FlatSection& section, const ParameterSpec& parameter) {
  const std::int64_t start = round_up(section.num_elements, kFlatAlignment);
  section.parameters.push_back({parameter.fqn, start, parameter.num_elements()});
  std::int64_t offset = start;
  for (const auto& segment : parameter.segments) {
    section.segments.push_back({segment, offset});
    offset += segment.num_elements();
  }
  section.num_elements = offset;
}

}  // namespace

std::vector<SegmentRun> FlatSection::runs(std::int64_t shard_index) const {
  COEUS_ASSERT(shard_index >= 0 && shard_index < group, "shard {} of {}", shard_index, group);
  const std::int64_t begin = shard_index * shard_elements(), end = begin + shard_elements();
  std::vector<SegmentRun> found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t first = segments[i].offset;
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(first + segments[i].segment.num_elements(), end);
    if (from < to) found.push_back({i, from - first, from - begin, to - from});
  }
  return found;
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
