#include "data/tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/files.h"

namespace coeus::data {
namespace {

// Up to here looking at every pair beats a heap.
constexpr std::size_t kShortWord = 48;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Heap order: std::push_heap keeps the greatest in front, so "later" compares as less.
bool goes_later(const BytePairs::Scratch::Candidate& a, const BytePairs::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

BytePairs::BytePairs(Vocabulary vocabulary, const std::vector<Merge>& merges,
                     WholeWords whole_words)
    : vocabulary_(std::move(vocabulary)),
      whole_words_(whole_words),
      rules_(std::bit_ceil(2 * merges.size() + 2)),
      merges_hash_(files::hash(std::as_bytes(std::span(merges)))),
      has_merges_(!merges.empty()) {
  for (int b = 0; b < 256; ++b) {
    const auto found = vocabulary_.find(std::string(1, static_cast<char>(b)));
    byte_ids_[b] = found == vocabulary_.end() ? kNoToken : found->second;
  }
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    // A pair listed twice has the rank of its last line, as in Hugging Face's map.
    rules_[slot_of(pair)] = {pair, static_cast<std::uint32_t>(rank), merge.merged};
  }
}

std::uint64_t BytePairs::hash() const {
  std::vector<std::pair<std::int32_t, std::string_view>> tokens;
  tokens.reserve(vocabulary_.size());
  for (const auto& [bytes, id] : vocabulary_) tokens.emplace_back(id, bytes);
  std::sort(tokens.begin(), tokens.end());
  std::uint64_t hash = merges_hash_ + (whole_words_ == WholeWords::look_up ? 1 : 0);
  for (const auto& [id, bytes] : tokens) {
    hash = files::hash(std::as_bytes(std::span(bytes)), hash ^ static_cast<std::uint64_t>(id));
  }
  return hash;
}

std::size_t BytePairs::slot_of(std::uint64_t pair) const {
  const std::size_t mask = rules_.size() - 1;
  std::size_t slot = (pair * 0x9E3779B97F4A7C15ull) >> 32 & mask;
  while (rules_[slot].pair != pair && rules_[slot].pair != kEmpty) slot = (slot + 1) & mask;
  return slot;
}

const BytePairs::Rule& BytePairs::rule_of(std::int32_t left, std::int32_t right) const {
  return rules_[slot_of(pair_of(left, right))];
}

bool BytePairs::encode(std::string_view word, Scratch& scratch,
                       std::vector<std::int32_t>& ids) const {
  if (whole_words_ == WholeWords::look_up) {
    if (const auto found = vocabulary_.find(word); found != vocabulary_.end()) {
      ids.push_back(found->second);
      return true;
    }
  }
  std::vector<std::int32_t>& symbols = has_merges_ ? scratch.ids : ids;
  if (has_merges_) symbols.clear();
  const std::size_t start = symbols.size();
  symbols.resize(start + word.size());
  bool known = true;
  for (std::size_t i = 0; i < word.size(); ++i) {
    symbols[start + i] = byte_ids_[static_cast<unsigned char>(word[i])];
    known &= symbols[start + i] != kNoToken;
  }
  if (!known || !has_merges_) return known;
  if (word.size() <= kShortWord) {
    merge_short(scratch, ids);
  } else {
    merge_long(scratch, ids);
  }
  return true;
}

void BytePairs::merge_short(Scratch& scratch, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t>& symbols = scratch.ids;
  std::vector<std::uint32_t>& ranks = scratch.ranks;  // of the pair that begins here
  ranks.resize(symbols.size());
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = rule_of(symbols[i], symbols[i + 1]).rank;
  while (count > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + count - 1);
    if (*best == kNoRank) break;
    const std::size_t i = best - ranks.begin();
    symbols[i] = rule_of(symbols[i], symbols[i + 1]).merged;
    std::copy(symbols.begin() + i + 2, symbols.begin() + count, symbols.begin() + i + 1);
    std::copy(ranks.begin() + i + 2, ranks.begin() + count, ranks.begin() + i + 1);
    --count;
    if (i + 1 < count) ranks[i] = rule_of(symbols[i], symbols[i + 1]).rank;
    if (i > 0) ranks[i - 1] = rule_of(symbols[i - 1], symbols[i]).rank;
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + count);
}

void BytePairs::push_candidate(Scratch& scratch, std::int32_t position) const {
  const auto& symbols = scratch.symbols;
  if (position < 0 || symbols[position].next < 0) return;
  const std::int32_t left = symbols[position].id, right = symbols[symbols[position].next].id;
  const Rule& rule = rule_of(left, right);
  if (rule.rank == kNoRank) return;
  scratch.heap.push_back({rule.rank, position, left, right, rule.merged});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), goes_later);
}

void BytePairs::merge_long(Scratch& scratch, std::vector<std::int32_t>& ids) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto size = static_cast<std::int32_t>(scratch.ids.size());
  COEUS_ASSERT(scratch.ids.size() < (std::size_t{1} << 31), "a word of {} bytes",
               scratch.ids.size());
  symbols.resize(size);
  heap.clear();
  for (std::int32_t i = 0; i < size; ++i) {
    symbols[i] = {scratch.ids[i], i - 1, i + 1 < size ? i + 1 : -1};
  }
  for (std::int32_t i = 0; i + 1 < size; ++i) push_candidate(scratch, i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), goes_later);
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    auto& left = symbols[candidate.position];
    // Either symbol may have been merged since the candidate was pushed.
    if (left.id != candidate.left || left.next < 0) continue;
    auto& right = symbols[left.next];
    if (right.id != candidate.right) continue;
    left.id = candidate.merged;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = candidate.position;
    right.id = kNoToken;
    push_candidate(scratch, left.previous);
    push_candidate(scratch, candidate.position);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace coeus::data
