#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Scalars as users write them. nullopt: not one.
namespace coeus::config {

std::optional<std::int64_t> parse_count(std::string_view text);  // 12, 1.5K, 2Mi, 1e9
std::optional<double> parse_number(std::string_view text);       // finite
std::optional<double> parse_duration(std::string_view text);     // 1h30m -> seconds
std::optional<std::int64_t> parse_bytes(std::string_view text);  // 4096, 64KiB, 1.5GiB, 2GB
bool is_null_word(std::string_view text);

std::string print_number(double value);  // the shortest text that reads back
std::string print_duration(double seconds);
std::string print_bytes(std::int64_t count);
std::string print_string(const std::string& text);  // quoted where YAML would not read it back

}  // namespace coeus::config
