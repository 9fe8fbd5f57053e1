#include "data/dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/packing.h"
#include "data/permutation.h"
#include "data/sources.h"

namespace coeus::data {
namespace {

// What all packings share: the order of samples.
class OrderedDataset : public Dataset {
 public:
  OrderedDataset(const DatasetOptions& options, TokenStream stream)
      : stream_(std::move(stream)),
        sequence_length_(options.data.sequence_length),
        seed_(options.seed),
        order_(options.order) {}

  std::int64_t num_tokens() const override { return stream_.num_tokens(); }
  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t index_of(std::int64_t n) const override {
    COEUS_ASSERT(n >= 0, "sample {}", n);
    const std::int64_t epoch = n / size(), index = n % size();
    if (order_ == DatasetOptions::Order::sequential) return index;
    const std::uint64_t key = mix(mix(static_cast<std::uint64_t>(seed_)) + epoch);
    return static_cast<std::int64_t>(permuted(index, size(), key));
  }

 protected:
  std::span<std::int64_t> row(std::int64_t* first) const {
    return {first, static_cast<std::size_t>(sequence_length_)};
  }

  const TokenStream stream_;
  const std::int64_t sequence_length_;

 private:
  const std::int64_t seed_;
  const DatasetOptions::Order order_;
};

// Sample n is tokens [nT, nT+T] of one stream.
class ConcatDataset : public OrderedDataset {
 public:
  using OrderedDataset::OrderedDataset;
  std::int64_t size() const override {
    return std::max<std::int64_t>(0, stream_.num_tokens() - 1) / sequence_length_;
  }
  SampleInfo read(std::int64_t n, SampleView into) const override {
    const std::int64_t begin = index_of(n) * sequence_length_;
    const auto tokens = row(into.tokens), labels = row(into.labels),
               positions = row(into.positions);
    stream_.read(begin, tokens);
    std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
    stream_.read(begin + sequence_length_, labels.last(1));
    std::iota(positions.begin(), positions.end(), 0);
    return {.valid_tokens = sequence_length_, .document_lengths = {}};
  }
};

// A sample holds whole documents, each blind to the others; what is left over is a document of
// ignored labels.
class DocumentsDataset : public OrderedDataset {
 public:
  DocumentsDataset(const DatasetOptions& options, TokenStream stream, DocumentPacking::Fill fill)
      : OrderedDataset(options, std::move(stream)), packing_(stream_, sequence_length_, fill) {}

  std::int64_t size() const override { return packing_.num_samples(); }
  SampleInfo read(std::int64_t n, SampleView into) const override {
    const auto tokens = row(into.tokens), labels = row(into.labels),
               positions = row(into.positions);
    SampleInfo info;
    std::size_t at = 0;
    for (const Piece& piece : packing_.sample(index_of(n))) {
      const auto count = static_cast<std::size_t>(piece.count);
      const auto here = tokens.subspan(at, count), next = labels.subspan(at, count);
      stream_.read(piece.begin, here);
      std::copy(here.begin() + 1, here.end(), next.begin());
      if (piece.ends_document) {
        next.back() = kIgnoredLabel;
      } else {
        stream_.read(piece.begin + piece.count, next.last(1));
      }
      info.valid_tokens += piece.count - (piece.ends_document ? 1 : 0);
      std::iota(positions.begin() + at, positions.begin() + at + count, 0);
      info.document_lengths.push_back(piece.count);
      at += count;
    }
    if (at < tokens.size()) {
      const auto rest = static_cast<std::int64_t>(tokens.size() - at);
      fill_ignored(rest, {&tokens[at], &labels[at], &positions[at]});
      info.document_lengths.push_back(static_cast<std::int32_t>(rest));
    }
    return info;
  }

 private:
  const DocumentPacking packing_;
};

std::unique_ptr<Dataset> make_dataset(const DatasetOptions& options, TokenStream stream) {
  switch (options.data.packing) {
    case Packing::concat:
      return std::make_unique<ConcatDataset>(options, std::move(stream));
    case Packing::documents:
      return std::make_unique<DocumentsDataset>(options, std::move(stream),
                                                DocumentPacking::Fill::together);
    case Packing::pad:
      return std::make_unique<DocumentsDataset>(options, std::move(stream),
                                                DocumentPacking::Fill::alone);
  }
  COEUS_ASSERT(false, "packing {}", static_cast<int>(options.data.packing));
}

TokenStream open_stream(const DatasetOptions& options, const Tokenizer& tokenizer, Split split) {
  const EvaluationConfig& evaluation = options.evaluation;
  const bool own_sources = !evaluation.sources.empty();
  if (split == Split::holdout && own_sources) {
    const std::string key = "evaluation.sources";
    return TokenStream::whole(open_sources(evaluation.sources, key, options, tokenizer).shards);
  }
  if (split == Split::holdout && evaluation.holdout <= 0) {
    throw DataError("evaluation: nothing is held out; set evaluation.holdout or its sources");
  }
  Shards shards = open_sources(options.data.sources, "data.sources", options, tokenizer).shards;
  if (own_sources || evaluation.holdout <= 0) return TokenStream::whole(std::move(shards));
  return split_documents(std::move(shards), evaluation.holdout, options.seed,
                         split == Split::train ? Part::kept : Part::held_out);
}

std::string place_of_split(const DatasetOptions& options, Split split) {
  if (split == Split::train) return place_of(options.data.sources.front(), "data.sources");
  const auto& sources = options.evaluation.sources;
  return sources.empty() ? "evaluation.holdout: " : place_of(sources.front(), "evaluation.sources");
}

}  // namespace

void fill_ignored(std::int64_t sequence_length, SampleView into) {
  std::fill_n(into.tokens, sequence_length, 0);
  std::fill_n(into.labels, sequence_length, kIgnoredLabel);
  std::iota(into.positions, into.positions + sequence_length, 0);
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      std::shared_ptr<const Tokenizer> tokenizer, Split split) {
  COEUS_ASSERT(options.data.sequence_length > 0, "sequence_length");
  if (options.data.sources.empty()) throw DataError("data.sources: is empty");
  auto dataset = make_dataset(options, open_stream(options, *tokenizer, split));
  if (dataset->size() == 0) {
    throw DataError(fmt::format(
        "{}{} tokens are shorter than one sample (data.sequence_length {} and the token after it)",
        place_of_split(options, split), dataset->num_tokens(), options.data.sequence_length));
  }
  return dataset;
}

std::string prepare(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto train = open_sources(options.data.sources, "data.sources", options, *tokenizer);
  const auto held_out =
      open_sources(options.evaluation.sources, "evaluation.sources", options, *tokenizer);
  if (train.prepared) return train.prepared->string();
  return held_out.prepared ? held_out.prepared->string() : "";
}

std::string data_hash(const DatasetOptions& options, const Tokenizer& tokenizer) {
  std::string text = tokenizer.hash();
  for (const auto& shard :
       open_sources(options.data.sources, "data.sources", options, tokenizer).shards) {
    text += fmt::format(";{:016x}", shard->content_hash());
  }
  return files::hash_hex(text);
}

}  // namespace coeus::data
