#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coeus::data {

// Text <-> token ids. Immutable: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;  // no BOS or EOS added
  virtual std::string decode(
      const std::vector<std::int32_t>& ids) const = 0;  // special tokens left out
  virtual std::int64_t vocab_size() const = 0;          // largest id + 1
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> eos_id() const = 0;
  virtual bool adds_bos() const = 0;     // its own rule (post processor, tokenizer_config.json)
  virtual std::string hash() const = 0;  // of everything that changes ids
  // The files a Hugging Face folder needs so that AutoTokenizer opens it: name -> bytes.
  virtual std::vector<std::pair<std::string, std::string>> files() const = 0;
};

// `byte`, a tokenizer.json, or a folder that holds one. Throws DataError naming the file and what
// in it is not supported.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

}  // namespace coeus::data
