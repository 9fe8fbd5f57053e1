#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace coeus {

using Json = nlohmann::ordered_json;  // keeps insertion order: what is written twice is the same bytes

// Parses hostile text: depth is capped, duplicate keys are errors. Throws the E that names `where`.
Json parse_json(std::string_view text, const std::string& where);

}  // namespace coeus
