#pragma once
#include <map>
#include <string>

#include "launch/environment.h"

namespace coeus::launch {

using Variables = std::map<std::string, std::string>;

inline Environment fake(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

inline Variables operator+(Variables left, const Variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

}  // namespace coeus::launch
