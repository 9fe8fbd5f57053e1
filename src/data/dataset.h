#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/tokenizer.h"

namespace coeus::data {

inline constexpr std::int64_t kIgnoredLabel = -100;

// Where one sample goes: sequence_length values each, in memory the caller owns.
struct SampleView {
  std::int64_t* tokens;
  std::int64_t* labels;  // shifted; kIgnoredLabel is ignored
  std::int64_t* positions;
};
struct SampleInfo {
  std::int64_t valid_tokens = 0;  // labels that are not ignored
  std::vector<std::int32_t>
      document_lengths;  // they sum to sequence_length (packing: documents); empty: one document
};

// Samples by global number n: epoch n / size, index through a keyed permutation. A pure function of
// (n, seed, data); thread safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;        // samples in one epoch
  virtual std::int64_t num_tokens() const = 0;  // tokens in one epoch
  virtual std::int64_t sequence_length() const = 0;
  virtual SampleInfo read(std::int64_t n, SampleView into) const = 0;
  virtual std::int64_t index_of(std::int64_t n) const = 0;  // which sample of the epoch n is
};
// A sample with every label ignored, for the tail of the last step.
void fill_ignored(std::int64_t sequence_length, SampleView into);

enum class Split { train, holdout };
struct DatasetOptions {
  DataConfig data;
  EvaluationConfig evaluation;  // holdout, sources
  std::string cache;            // run.cache
  std::int64_t seed = 42;
  enum class Prepare { if_missing, never } prepare = Prepare::if_missing;
  std::int64_t num_nodes =
      1;  // > 1: raw text over 1 GiB must be prepared beforehand (DataError with the line to run)
  std::int64_t prepare_threads = 0;    // 0: one a core
  std::string config_name = "CONFIG";  // what the user typed, for the line to run
  enum class Order { shuffled, sequential } order = Order::shuffled;  // sequential for validation
};
// Opens token shards, or tokenizes raw text once into the cache (one process per machine prepares,
// others wait; a kill loses nothing but time). Throws DataError: file:line:col of data.sources, the
// file concerned, "shorter than one sample", …
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      std::shared_ptr<const Tokenizer> tokenizer, Split split);

// What `coeus data prepare` does: fills the cache for both splits. Returns the (first) folder of
// shards; empty when the sources are token files already.
std::string prepare(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

// Hash over the identity of the data (files' content hashes in order, tokenizer, options that
// change tokens); goes into run.json.
std::string data_hash(const DatasetOptions& options, const Tokenizer& tokenizer);

}  // namespace coeus::data
