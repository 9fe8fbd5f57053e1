#include "data/tokenizers/byte.h"

#include "base/json.h"
#include "data/tokenizers/byte_alphabet.h"

namespace coeus::data {

std::vector<std::pair<std::string, std::string>> byte_tokenizer_files() {
  const std::string end = "<|endoftext|>";
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[spell_bytes(std::string(1, static_cast<char>(b)))] = b;
  vocab[end] = 256;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const Json end_token = {{"id", 256},       {"content", end},  {"single_word", false},
                          {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                          {"special", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", vocab},
                      {"merges", Json::array()}};
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", Json::array({end_token})},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level},
                          {"post_processor", nullptr},
                          {"decoder", byte_level},
                          {"model", model}};
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"eos_token", end},
                       {"clean_up_tokenization_spaces", false}};
  return {{"tokenizer.json", tokenizer.dump(2) + "\n"},
          {"tokenizer_config.json", config.dump(2) + "\n"}};
}

}  // namespace coeus::data
