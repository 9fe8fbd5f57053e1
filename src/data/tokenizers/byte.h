#pragma once
#include <string>
#include <utility>
#include <vector>

namespace coeus::data {

// The tokenizer named byte: ids 0–255 are the bytes, 256 is <|endoftext|>; nothing is merged. As
// the files of a Hugging Face folder.
std::vector<std::pair<std::string, std::string>> byte_tokenizer_files();

}  // namespace coeus::data
