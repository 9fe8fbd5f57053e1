#include "checkpoint/step_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace coeus::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-", kTmp = ".tmp-";

std::optional<std::int64_t> parse_digits(std::string_view text) {
  std::int64_t value = 0;
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::string to_string(const StepName& name) {
  const std::string final = fmt::format("{}{:08}", kPrefix, name.step);
  return name.attempt ? fmt::format("{}{}{}", final, kTmp, *name.attempt) : final;
}

std::optional<StepName> parse_step_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t dot = std::min(name.find(kTmp), name.size());
  const auto step = parse_digits(name.substr(kPrefix.size(), dot - kPrefix.size()));
  if (!step) return std::nullopt;
  StepName parsed{*step, std::nullopt};
  if (dot < name.size()) parsed.attempt = parse_digits(name.substr(dot + kTmp.size()));
  // Only what we would write ourselves: "step-7" is somebody else's.
  return to_string(parsed) == name ? std::optional(parsed) : std::nullopt;
}

std::string unused_name(const files::Path& directory, std::int64_t step) {
  std::int64_t attempt = 0;
  for (const auto& name : files::list(directory)) {
    const auto parsed = parse_step_name(name);
    if (parsed && parsed->step == step && parsed->attempt) {
      attempt = std::max(attempt, *parsed->attempt + 1);
    }
  }
  return to_string(StepName{step, attempt});
}

}  // namespace coeus::checkpoint
