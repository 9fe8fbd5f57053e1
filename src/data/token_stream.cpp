#include "data/token_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "data/permutation.h"

namespace coeus::data {
namespace {

// Walks the documents of a shard; a table that does not add up to the shard's tokens is an error.
class DocumentWalk {
 public:
  explicit DocumentWalk(const TokenShard& shard) : shard_(shard) {}
  bool at_end() const { return index_ == shard_.documents().size(); }
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const {
    const std::uint64_t count = shard_.documents()[index_].num_tokens;
    if (count > static_cast<std::uint64_t>(shard_.num_tokens() - begin_)) {
      throw DataError(shard_.path().string() + ": its table of documents does not add up");
    }
    return begin_ + static_cast<std::int64_t>(count);
  }
  std::uint64_t text_hash() const { return shard_.documents()[index_].text_hash; }
  void next() {
    begin_ = end();
    ++index_;
  }

 private:
  const TokenShard& shard_;
  std::size_t index_ = 0;
  std::int64_t begin_ = 0;
};

// Documents whose key is below the threshold are held out.
class Holdout {
 public:
  Holdout(const Shards& shards, double fraction, std::int64_t seed)
      : seed_(mix(static_cast<std::uint64_t>(seed))) {
    const double scaled = std::ldexp(fraction, 64);
    threshold_ = scaled >= 0x1p64 ? std::numeric_limits<std::uint64_t>::max()
                                  : static_cast<std::uint64_t>(scaled);
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), greatest = 0;
    for (const auto& shard : shards) {
      for (const Document& document : shard->documents()) {
        least = std::min(least, key_of(document.text_hash));
        greatest = std::max(greatest, key_of(document.text_hash));
      }
    }
    threshold_ = std::max(threshold_, least + (least < greatest ? 1 : 0));
    threshold_ = std::min(threshold_, greatest);
  }
  bool contains(std::uint64_t text_hash) const { return key_of(text_hash) < threshold_; }

 private:
  std::uint64_t key_of(std::uint64_t text_hash) const { return mix(text_hash ^ seed_); }
  std::uint64_t seed_, threshold_;
};

std::vector<TokenStream::Extent> split_one(const Shards& shards, double fraction, Part part) {
  std::vector<TokenStream::Extent> extents;
  for (std::uint32_t s = 0; s < shards.size(); ++s) {
    const std::int64_t all = shards[s]->num_tokens();
    const auto held = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(all)));
    const std::int64_t kept = all - std::min(all, held);
    if (part == Part::kept) {
      extents.push_back({s, 0, kept});
    } else {
      extents.push_back({s, kept, all - kept});
    }
  }
  return extents;
}

}  // namespace

TokenStream TokenStream::whole(Shards shards) {
  std::vector<Extent> extents;
  for (std::uint32_t s = 0; s < shards.size(); ++s) {
    extents.push_back({s, 0, shards[s]->num_tokens()});
  }
  return {std::move(shards), extents};
}

TokenStream::TokenStream(Shards shards, const std::vector<Extent>& extents)
    : shards_(std::move(shards)) {
  for (const Extent& extent : extents) {
    if (extent.count == 0) continue;
    runs_.push_back({num_tokens_, extent.begin, extent.shard});
    num_tokens_ += extent.count;
  }
}

void TokenStream::read(std::int64_t begin, std::span<std::int64_t> into) const {
  COEUS_ASSERT(begin >= 0 && begin <= num_tokens_ - std::ssize(into), "tokens {} and {} more of {}",
               begin, into.size(), num_tokens_);
  if (into.empty()) return;
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), begin,
                       [](std::int64_t at, const Run& run) { return at < run.stream_begin; });
  for (std::size_t run = after - runs_.begin() - 1; !into.empty(); ++run) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(end_of(run) - begin, std::ssize(into)));
    const Run& from = runs_[run];
    shards_[from.shard]->read(from.shard_begin + begin - from.stream_begin, into.first(count));
    into = into.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

void TokenStream::for_each_document(
    const std::function<void(std::int64_t, std::int64_t)>& document) const {
  for (std::size_t r = 0; r < runs_.size();) {
    const std::uint32_t shard = runs_[r].shard;
    DocumentWalk walk(*shards_[shard]);
    for (; r < runs_.size() && runs_[r].shard == shard; ++r) {
      const std::int64_t begin = runs_[r].shard_begin;
      const std::int64_t end = begin + end_of(r) - runs_[r].stream_begin;
      const std::int64_t shift = runs_[r].stream_begin - begin;
      std::int64_t covered = begin;
      while (!walk.at_end() && walk.begin() < end) {
        const std::int64_t first = std::max(begin, walk.begin());
        const std::int64_t last = std::min(end, walk.end());
        if (last > first) document(first + shift, last - first);
        covered = std::max(covered, last);
        if (walk.end() > end) break;  // the next run may begin inside it
        walk.next();
      }
      if (covered != end) {
        throw DataError(shards_[shard]->path().string() +
                        ": its table of documents does not add up");
      }
    }
  }
}

TokenStream split_documents(Shards shards, double fraction, std::int64_t seed, Part part) {
  std::size_t num_documents = 0;
  for (const auto& shard : shards) num_documents += shard->documents().size();
  if (num_documents == 1) {
    const auto extents = split_one(shards, fraction, part);
    return {std::move(shards), extents};
  }
  const Holdout holdout(shards, fraction, seed);
  std::vector<TokenStream::Extent> extents;
  for (std::uint32_t s = 0; s < shards.size(); ++s) {
    for (DocumentWalk walk(*shards[s]); !walk.at_end(); walk.next()) {
      if (holdout.contains(walk.text_hash()) != (part == Part::held_out)) continue;
      const std::int64_t begin = walk.begin(), count = walk.end() - begin;
      const bool adjoins = !extents.empty() && extents.back().shard == s &&
                           extents.back().begin + extents.back().count == begin;
      if (adjoins) {
        extents.back().count += count;
      } else {
        extents.push_back({s, begin, count});
      }
    }
  }
  return {std::move(shards), extents};
}

}  // namespace coeus::data
