#include "models/hf_names.h"

#include <optional>
#include <vector>

#include "base/error.h"

namespace coeus::models {
namespace {

// The numbers that stand for the pattern's #; nullopt: the name does not match.
std::optional<std::vector<std::string_view>> match(std::string_view pattern,
                                                   std::string_view name) {
  std::vector<std::string_view> numbers;
  std::size_t at = 0;
  for (const char c : pattern) {
    if (c != '#') {
      if (at == name.size() || name[at] != c) return std::nullopt;
      ++at;
      continue;
    }
    const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    if (end == at) return std::nullopt;
    numbers.push_back(name.substr(at, end - at));
    at = end;
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

}  // namespace

std::string find_hf_name(const std::string& fqn,
                         std::initializer_list<std::span<const HfName>> tables,
                         std::string_view model) {
  for (const auto& table : tables) {
    for (const HfName& entry : table) {
      const auto numbers = match(entry.fqn, fqn);
      if (!numbers) continue;
      std::string name;
      std::size_t next = 0;
      for (const char c : entry.name) {
        if (c == '#') {
          name += numbers->at(next++);
        } else {
          name += c;
        }
      }
      return name;
    }
  }
  COEUS_ASSERT(false, "{} is no segment of a {}", fqn, model);
  return {};
}

}  // namespace coeus::models
