#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coeus::config {
class Fields;
}

namespace coeus {

struct TokenizerConfig {
  std::string path;  // a tokenizer.json, a folder that holds one, or the word byte
  void describe(config::Fields& f);
};

struct SourceConfig {                     // also written as the bare path
  std::string path;                       // glob
  std::optional<double> weight, repeats;  // mixtures are refused so far
  std::string where;  // file:line:col of the entry, for messages (filled by the parser)
  void describe(config::Fields& f);
};

enum class Packing { concat, documents, pad };
enum class BosPolicy { automatic, on, off };
struct DataConfig {
  std::vector<SourceConfig> sources;  // written as a string, strings or maps
  std::string text_key = "text";
  BosPolicy bos = BosPolicy::automatic;
  bool eos = true;
  std::int64_t sequence_length = 8192;
  Packing packing = Packing::concat;
  std::int64_t threads = 4;
  void describe(config::Fields& f);
};

struct EvaluationConfig {
  std::int64_t every = 500;  // steps; 0: never
  std::vector<SourceConfig> sources;
  double holdout = 0;       // fraction of documents, by keyed hash; of one document: its tail
  std::int64_t steps = 20;  // global batches
  void describe(config::Fields& f);
};

}  // namespace coeus
