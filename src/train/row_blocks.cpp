#include "train/row_blocks.h"

#include "core/torch.h"
#include "layout/placement.h"

namespace coeus::train {
namespace {

constexpr std::int64_t kNarrowBytes = 64 * 1024;

// The whole rows of a segment's part inside the shard.
struct Rows {
  std::int64_t first = 0, count = 0, shard_offset = 0;
};

Rows whole_rows(const FlatShard& shard, const FlatSection::PlacedSegment& s, std::int64_t width) {
  const std::int64_t part = shard.section->shard_elements(), begin = shard.shard_index * part;
  const std::int64_t from = std::max<std::int64_t>(begin - s.offset, 0);
  const std::int64_t to = std::min(begin + part - s.offset, s.count);
  const std::int64_t first = (from + width - 1) / width, last = to / width;
  if (to <= from || last <= first) return {};
  return {first, last - first, s.offset + first * width - begin};
}

// Every tp rank holds as many columns of it, few enough to be worth an exchange.
bool is_exchanged(const FlatSection::PlacedSegment& s, std::int64_t element_bytes, int degree) {
  if (s.part.dim != 1 || s.part.copies > 1) return false;
  const std::int64_t width = s.part.end - s.part.begin;
  return width * degree == s.segment.shape[1] && width * element_bytes < kNarrowBytes;
}

}  // namespace

std::vector<WrittenRun> row_blocks(const FlatShard& shard, const Tensor& values,
                                   comm::Communicator& tp) {
  std::vector<WrittenRun> out;
  std::vector<Rows> exchanged(shard.section->segments.size());
  for (std::size_t i = 0; tp.size() > 1 && i < exchanged.size(); ++i) {
    const auto& s = shard.section->segments[i];
    if (!is_exchanged(s, static_cast<std::int64_t>(values.element_size()), tp.size())) continue;
    const std::int64_t width = s.part.end - s.part.begin;
    const Rows rows = exchanged[i] = whole_rows(shard, s, width);
    if (rows.count == 0) continue;
    std::vector<std::int64_t> send;
    for (int r = 0; r < tp.size(); ++r) send.push_back(shard_range(rows.count, tp.size(), r).size);
    const auto mine = shard_range(rows.count, tp.size(), tp.rank());
    const std::vector<std::int64_t> receive(send.size(), mine.size);
    const Tensor slices = at::empty({mine.size * tp.size(), width}, values.options());
    tp.all_to_all(slices,
                  values.narrow(0, rows.shard_offset, rows.count * width)
                      .view({rows.count, width})
                      .contiguous(),
                  receive, send, {.label = s.segment.fqn})
        .wait();
    if (mine.size == 0 || shard.counted.empty()) continue;
    out.push_back({i, (rows.first + mine.begin) * width * tp.size(),
                   slices.view({tp.size(), mine.size, width}).transpose(0, 1).contiguous()});
  }
  for (const auto& run : shard.runs) {
    const Rows& rows = exchanged[run.segment];
    const auto& s = shard.section->segments[run.segment];
    const std::int64_t end = rows.shard_offset + rows.count * (s.part.end - s.part.begin);
    if (rows.count > 0 && run.shard_offset >= rows.shard_offset && run.shard_offset < end) continue;
    if (shard.counts(run))
      out.push_back(
          {run.segment, run.segment_offset, values.narrow(0, run.shard_offset, run.count)});
  }
  return out;
}

}  // namespace coeus::train
