#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace coeus {

using Json =
    nlohmann::ordered_json;  // keeps insertion order: what is written twice is the same bytes

// Parses hostile text: depth is capped, duplicate keys are faults. Sets `fault` where it is none.
Json parse_json(std::string_view text, std::optional<std::string>& fault);

// The same, throwing an E (DataError, CheckpointError …) that names `where`.
template <class E = DataError>
Json parse_json(std::string_view text, const std::string& where) {
  std::optional<std::string> fault;
  Json json = parse_json(text, fault);
  if (fault) throw E(where + ": " + *fault);
  return json;
}

}  // namespace coeus
