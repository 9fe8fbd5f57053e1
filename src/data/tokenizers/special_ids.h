#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace coeus::data {

struct SpecialIds {
  std::optional<std::int32_t> bos, eos;
  bool adds_bos = false;
};

// Where files disagree, tokenizer_config.json counts first, then generation_config.json,
// config.json, and at last the names that vocabularies commonly give to the end of a text. `id_of`
// looks a token's text up.
SpecialIds find_special_ids(
    const std::vector<std::pair<std::string, std::string>>& files, const Json& tokenizer,
    const std::function<std::optional<std::int32_t>(std::string_view)>& id_of,
    const std::string& where);

}  // namespace coeus::data
