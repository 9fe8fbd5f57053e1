#include "metrics/sinks/append.h"

#include <algorithm>
#include <array>

namespace coeus::metrics {

void drop_torn_line(const files::Path& path) {
  if (!files::exists(path)) return;
  const auto to_read = files::File::open_to_read(path);
  const std::uint64_t size = to_read.size();
  std::uint64_t end = size;
  for (std::array<std::byte, 4096> block; end > 0;) {
    const std::uint64_t begin = end - std::min<std::uint64_t>(end, block.size());
    const auto bytes = std::span(block).first(end - begin);
    to_read.read(begin, bytes);
    const auto newline = std::find(bytes.rbegin(), bytes.rend(), std::byte{'\n'});
    end = begin + static_cast<std::uint64_t>(bytes.rend() - newline);
    if (newline != bytes.rend()) break;
  }
  if (end != size) files::File::open_to_write(path).truncate(end);
}

}  // namespace coeus::metrics
