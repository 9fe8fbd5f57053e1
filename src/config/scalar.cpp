#include "config/scalar.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"

namespace coeus::config {
namespace {

struct Suffix {
  std::string_view word;
  std::int64_t factor;
};
constexpr Suffix kCountSuffixes[] = {{"", 1},           {"K", 1000},       {"M", 1000000},
                                     {"B", 1000000000}, {"Ki", 1LL << 10}, {"Mi", 1LL << 20}};
constexpr Suffix kByteSuffixes[] = {{"", 1},
                                    {"B", 1},
                                    {"KB", 1000},
                                    {"MB", 1000000},
                                    {"GB", 1000000000},
                                    {"TB", 1000000000000},
                                    {"KiB", 1LL << 10},
                                    {"MiB", 1LL << 20},
                                    {"GiB", 1LL << 30},
                                    {"TiB", 1LL << 40}};
constexpr Suffix kTimeSuffixes[] = {{"h", 3600}, {"m", 60}, {"s", 1}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// [+-] digits [. digits] [e exponent], exactly, times factor; nullopt unless the product is an
// integer of 64 bits.
std::optional<std::int64_t> exact_integer(std::string_view text, std::int64_t factor) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  __int128 value = 0;
  int exponent = 0, digits = 0;
  bool fraction = false;
  std::size_t i = 0;
  for (; i < text.size() && (is_digit(text[i]) || (text[i] == '.' && !fraction)); ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    if (++digits > 19) return std::nullopt;
    value = value * 10 + (text[i] - '0');
    exponent -= fraction;
  }
  if (digits == 0) return std::nullopt;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return std::nullopt;
    std::string_view rest = text.substr(i + 1);
    if (rest.starts_with('+')) rest.remove_prefix(1);
    int written = 0;
    const auto [end, error] = std::from_chars(rest.begin(), rest.end(), written);
    if (error != std::errc{} || end != rest.end() || std::abs(written) > 18) return std::nullopt;
    exponent += written;
  }
  value *= factor;
  constexpr __int128 kMax = std::numeric_limits<std::int64_t>::max();
  for (; exponent > 0; --exponent) {
    if (value > kMax) return std::nullopt;
    value *= 10;
  }
  for (; exponent < 0; ++exponent) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  if (value > kMax) return std::nullopt;
  return static_cast<std::int64_t>(negative ? -value : value);
}

template <std::size_t N>
std::optional<std::int64_t> with_suffix(std::string_view text, const Suffix (&suffixes)[N]) {
  std::size_t end = text.size();
  while (end > 0 && std::isalpha(static_cast<unsigned char>(text[end - 1]))) --end;
  for (const Suffix& suffix : suffixes) {
    if (text.substr(end) == suffix.word) return exact_integer(text.substr(0, end), suffix.factor);
  }
  return exact_integer(text, 1);
}

}  // namespace

std::optional<std::int64_t> parse_count(std::string_view text) {
  return with_suffix(text, kCountSuffixes);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const auto bytes = with_suffix(text, kByteSuffixes);
  return bytes && *bytes >= 0 ? bytes : std::nullopt;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (text.empty() || error != std::errc{} || end != text.end() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> parse_duration(std::string_view text) {
  double seconds = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double amount = 0;
    const auto [end, error] =
        std::from_chars(text.begin(), text.end(), amount, std::chars_format::fixed);
    if (error != std::errc{} || amount < 0 || !std::isfinite(amount)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (text.starts_with("ms")) {
      seconds += amount / 1000;
      text.remove_prefix(2);
      continue;
    }
    bool known = false;
    for (const Suffix& suffix : kTimeSuffixes) {
      if (!text.starts_with(suffix.word)) continue;
      seconds += amount * static_cast<double>(suffix.factor);
      text.remove_prefix(1);
      known = true;
      break;
    }
    if (!known) return std::nullopt;
  }
  return seconds;
}

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::string print_number(double value) {
  return fmt::format("{}", value);
}

std::string print_duration(double seconds) {
  for (const Suffix& suffix : kTimeSuffixes) {
    const double amount = seconds / static_cast<double>(suffix.factor);
    if (amount >= 1 && amount == std::floor(amount)) {
      return fmt::format("{:.0f}{}", amount, suffix.word);
    }
  }
  return fmt::format("{:f}s", seconds);
}

std::string print_bytes(std::int64_t count) {
  for (const Suffix& suffix : {Suffix{"TiB", 1LL << 40}, Suffix{"GiB", 1LL << 30},
                               Suffix{"MiB", 1LL << 20}, Suffix{"KiB", 1LL << 10}}) {
    if (count != 0 && count % suffix.factor == 0) {
      return fmt::format("{}{}", count / suffix.factor, suffix.word);
    }
  }
  return std::to_string(count);
}

std::string print_string(const std::string& text) {
  const auto safe = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_./+@-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  bool plain = !is_null_word(text) && text[0] != '-' && text[0] != '@';
  for (const char c : text) plain = plain && safe(static_cast<unsigned char>(c));
  const bool looks_otherwise = parse_number(text) || text == "true" || text == "false";
  if (plain && !looks_otherwise) return text;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace coeus::config
