#include "data/tokenizers/hf_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "data/tokenizers/byte_alphabet.h"
#include "data/tokenizers/hf_json.h"
#include "data/utf8.h"

namespace coeus::data {
namespace {

// Remembers what words became: text repeats itself, and merging costs more than looking up.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 31, kMaxIds = 7;

  struct Entry {
    char word[kMaxBytes];
    std::uint8_t length = 0;
    std::int32_t ids[kMaxIds];
    std::uint8_t count = 0;
  };
  static_assert(sizeof(Entry) == 64);

  Entry& entry_of(std::string_view word) {
    const std::uint64_t hash = files::hash(std::as_bytes(std::span(word)));
    return entries_[hash & (kEntries - 1)];
  }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.length == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }

 private:
  static constexpr std::size_t kEntries = 1 << 16;  // 4 MiB
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

const std::string& text_of(const std::vector<std::pair<std::string, std::string>>& files,
                           std::string_view name) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.first == name; });
  COEUS_ASSERT(found != files.end(), "no {}", name);
  return found->second;
}

}  // namespace

struct HfTokenizer::Model {
  BytePairs pairs;
  PreTokenizer pre_tokenizer;
  AddedTokens raw, normalized;  // those of the second are sought in what the first leaves
};

struct HfTokenizer::Scratch {
  MatchScratch match;
  BytePairs::Scratch pairs;
  WordCache cache;
};

// A Scratch out of the tokenizer's store, and back into it.
class HfTokenizer::Borrowed {
 public:
  explicit Borrowed(const HfTokenizer& owner) : owner_(owner) {
    {
      const std::lock_guard lock(owner_.scratch_mutex_);
      if (!owner_.free_scratch_.empty()) {
        scratch_ = std::move(owner_.free_scratch_.back());
        owner_.free_scratch_.pop_back();
      }
    }
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    const std::lock_guard lock(owner_.scratch_mutex_);
    owner_.free_scratch_.push_back(std::move(scratch_));
  }
  Scratch& operator*() { return *scratch_; }

 private:
  const HfTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

HfTokenizer::HfTokenizer(std::vector<std::pair<std::string, std::string>> files,
                         const std::string& where)
    : where_(where), files_(std::move(files)) {
  HfDescription description = read_hf_description(text_of(files_, "tokenizer.json"), where);
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : description.added) {
    (token.normalized ? normalized : raw).push_back(token);
  }
  model_ = std::make_unique<const Model>(Model{
      BytePairs(std::move(description.vocabulary), description.merges, description.whole_words),
      PreTokenizer(description.pre_tokenizer, where), AddedTokens(raw), AddedTokens(normalized)});
  for (auto& [id, spelling] : description.unspelled) {
    tokens_.resize(std::max<std::size_t>(tokens_.size(), id + 1));
    tokens_[id].bytes = spelling;
  }
  fill_decoding(description.added);
  const auto id_of = [&](std::string_view text) -> std::optional<std::int32_t> {
    for (const AddedToken& token : description.added) {
      if (token.content == text) return token.id;
    }
    const auto bytes = read_spelling(text);
    const auto& vocabulary = model_->pairs.vocabulary();
    const auto found = bytes ? vocabulary.find(*bytes) : vocabulary.end();
    return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
  };
  special_ = find_special_ids(files_, description.rest, id_of, where);
  for (const auto id : {special_.bos, special_.eos}) {
    if (id && (*id < 0 || *id >= vocab_size())) {
      throw DataError(fmt::format("{}: BOS or EOS id {} is outside the vocabulary", where, *id));
    }
  }
  compute_hash(description.added);
  choose_files(description.added);
}
HfTokenizer::~HfTokenizer() = default;

void HfTokenizer::fill_decoding(const std::vector<AddedToken>& added) {
  const auto place = [&](std::int32_t id, std::string bytes, bool special) {
    tokens_.resize(std::max<std::size_t>(tokens_.size(), id + 1));
    tokens_[id] = {std::move(bytes), special};
  };
  for (const auto& [bytes, id] : model_->pairs.vocabulary()) place(id, bytes, false);
  for (const AddedToken& token : added) {
    // Hugging Face's decoder takes every token for a spelling, added ones too, where it can.
    place(token.id, read_spelling(token.content).value_or(token.content), token.special);
  }
}

void HfTokenizer::compute_hash(const std::vector<AddedToken>& added) {
  std::string text = fmt::format("{:x};{};bos {} eos {} adds {};", model_->pairs.hash(),
                                 model_->pre_tokenizer.description(), special_.bos.value_or(-1),
                                 special_.eos.value_or(-1), special_.adds_bos);
  for (const AddedToken& t : added) {
    text +=
        fmt::format("{}|{}|{}|{}|{};", t.id, t.content, t.left_strip, t.right_strip, t.normalized);
  }
  hash_ = files::hash_hex(text);
}

// Those that make AutoTokenizer open the folder; the other configs belong to the model.
void HfTokenizer::choose_files(const std::vector<AddedToken>& added) {
  std::erase_if(files_, [](const auto& file) {
    return file.first == "config.json" || file.first == "generation_config.json";
  });
  for (const auto& [name, text] : files_) {
    if (name == "tokenizer_config.json") return;
  }
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  for (const AddedToken& token : added) {
    if (token.id == special_.bos) config["bos_token"] = token.content;
    if (token.id == special_.eos) config["eos_token"] = token.content;
  }
  files_.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
}

void HfTokenizer::encode_word(std::string_view word, Scratch& scratch,
                              std::vector<std::int32_t>& ids) const {
  const bool short_enough = word.size() <= WordCache::kMaxBytes;
  WordCache::Entry* entry = short_enough ? &scratch.cache.entry_of(word) : nullptr;
  if (entry != nullptr && WordCache::holds(*entry, word)) {
    ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
    return;
  }
  const std::size_t before = ids.size();
  if (!model_->pairs.encode(word, scratch.pairs, ids)) {
    throw DataError(where_ + ": a byte of the text has no token in this vocabulary");
  }
  const std::size_t count = ids.size() - before;
  if (entry == nullptr || count > WordCache::kMaxIds) return;
  std::copy(word.begin(), word.end(), entry->word);
  std::copy(ids.begin() + before, ids.end(), entry->ids);
  entry->length = static_cast<std::uint8_t>(word.size());
  entry->count = static_cast<std::uint8_t>(count);
}

std::vector<std::int32_t> HfTokenizer::encode(std::string_view text) const {
  if (const std::size_t at = utf8::find_invalid(text); at != text.size()) {
    throw DataError(fmt::format("{}: the text is not valid UTF-8 at byte {}", where_, at));
  }
  Borrowed borrowed(*this);
  Scratch& scratch = *borrowed;
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  const auto word = [&](std::string_view w) { encode_word(w, scratch, ids); };
  const auto token = [&](std::int32_t id) { ids.push_back(id); };
  const auto words = [&](std::string_view part) {
    model_->pre_tokenizer.split(scratch.match, part, word);
  };
  model_->raw.split(
      text, [&](std::string_view part) { model_->normalized.split(part, words, token); }, token);
  return ids;
}

std::string HfTokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError(fmt::format("{}: id {} is outside the vocabulary", where_, id));
    }
    if (!tokens_[id].special) text += tokens_[id].bytes;
  }
  return utf8::replace_invalid(std::move(text));
}

}  // namespace coeus::data
