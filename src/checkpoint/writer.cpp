#include "checkpoint/writer.h"

#include <algorithm>
#include <tuple>

#include "checkpoint/manifest.h"

namespace coeus::checkpoint {

RunWriter::RunWriter(const FilePlan& plan, const std::vector<WriteRun>& runs) : plan_(plan) {
  for (const auto& run : runs) {
    const auto place = plan.place(run);
    if (place.size != 0) chunks_.push_back({place.file, place.offset, run.bytes});
  }
  std::sort(chunks_.begin(), chunks_.end(), [](const Chunk& a, const Chunk& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
}

std::vector<Record> RunWriter::write(const files::Path& folder) {
  std::vector<Record> records;
  std::vector<std::span<const std::byte>> parts;
  std::optional<files::File> file;
  for (std::size_t i = 0; i < chunks_.size();) {
    const auto [index, offset, bytes] = chunks_[i];
    if (records.empty() || records.back().file != index) {
      if (file) file->sync();
      file.emplace(files::File::open_to_write(folder / plan_.files()[index].name));
    }
    take_piece(i, parts);
    const auto piece = joined(parts);
    file->write(offset, piece);
    records.push_back({index, offset, piece.size(), files::hash(piece)});
  }
  if (file) file->sync();
  return records;
}

// The bytes from `chunk` on that follow one another in its file, up to the limit; what is not taken
// of the last one stays as the next chunk.
void RunWriter::take_piece(std::size_t& chunk, std::vector<std::span<const std::byte>>& parts) {
  parts.clear();
  const std::size_t file = chunks_[chunk].file;
  const std::uint64_t begin = chunks_[chunk].offset;
  std::uint64_t end = begin;
  while (chunk < chunks_.size() && end - begin < kMaxRunBytes) {
    Chunk& c = chunks_[chunk];
    if (c.file != file || c.offset != end) break;
    const auto part =
        c.bytes.first(std::min<std::size_t>(c.bytes.size(), begin + kMaxRunBytes - end));
    if (!parts.empty() && parts.back().data() + parts.back().size() == part.data()) {
      parts.back() = {parts.back().data(), parts.back().size() + part.size()};
    } else {
      parts.push_back(part);
    }
    end += part.size();
    c.offset += part.size();
    c.bytes = c.bytes.subspan(part.size());
    if (c.bytes.empty()) ++chunk;
  }
}

std::span<const std::byte> RunWriter::joined(const std::vector<std::span<const std::byte>>& parts) {
  if (parts.size() == 1) return parts[0];
  buffer_.clear();
  for (const auto& part : parts) buffer_.insert(buffer_.end(), part.begin(), part.end());
  return buffer_;
}

}  // namespace coeus::checkpoint
