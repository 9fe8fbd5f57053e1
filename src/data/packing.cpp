#include "data/packing.h"

#include <algorithm>
#include <map>

namespace coeus::data {
namespace {

// Pieces are packed a window at a time, so that samples stay near the order of the data and opening
// is linear.
constexpr std::int64_t kWindowSamples = 256;

}  // namespace

DocumentPacking::DocumentPacking(const TokenStream& stream, std::int64_t sequence_length,
                                 Fill fill) {
  std::vector<Piece> window;
  std::int64_t window_tokens = 0;
  stream.for_each_document([&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min(sequence_length, count - done);
      const Piece piece{begin + done, static_cast<std::int32_t>(part), done + part == count};
      done += part;
      if (fill == Fill::alone) {
        pieces_.push_back(piece);
        ends_.push_back(pieces_.size());
        continue;
      }
      window.push_back(piece);
      window_tokens += part;
      if (window_tokens >= kWindowSamples * sequence_length) {
        pack(window, sequence_length);
        window_tokens = 0;
      }
    }
  });
  pack(window, sequence_length);
}

std::span<const Piece> DocumentPacking::sample(std::int64_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span(pieces_).subspan(begin, ends_[index] - begin);
}

// Best fit, longest first.
void DocumentPacking::pack(std::vector<Piece>& window, std::int64_t sequence_length) {
  std::stable_sort(window.begin(), window.end(),
                   [](const Piece& a, const Piece& b) { return a.count > b.count; });
  std::vector<std::vector<Piece>> bins;
  std::multimap<std::int64_t, std::size_t> space;  // left in a bin
  for (const Piece& piece : window) {
    auto fit = space.lower_bound(piece.count);
    std::int64_t left = sequence_length;
    std::size_t bin = bins.size();
    if (fit == space.end()) {
      bins.emplace_back();
    } else {
      left = fit->first;
      bin = fit->second;
      space.erase(fit);
    }
    bins[bin].push_back(piece);
    if (left > piece.count) space.emplace(left - piece.count, bin);
  }
  for (const std::vector<Piece>& bin : bins) {
    pieces_.insert(pieces_.end(), bin.begin(), bin.end());
    ends_.push_back(pieces_.size());
  }
  window.clear();
}

}  // namespace coeus::data
