#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace coeus::config {

// The nearest of `known` to a mistyped word, or empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// "; did you mean X" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace coeus::config
