#include <charconv>

#include "base/error.h"
#include "launch/environment.h"

namespace coeus::launch {
namespace {

constexpr std::size_t kMaxHosts = 1'000'000;

[[noreturn]] void fail(const std::string& list, const std::string& why) {
  throw UsageError(fmt::format("node list \"{}\" cannot be read: {}", list, why));
}

// The places of `item` that lie outside brackets and hold a comma.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : list) {
    depth += (c == '[') - (c == ']');
    if (depth < 0 || depth > 1) fail(list, "brackets do not match");
    if (c == ',' && depth == 0)
      items.emplace_back();
    else
      items.back() += c;
  }
  if (depth != 0) fail(list, "brackets do not match");
  return items;
}

unsigned long parse_number(const std::string& list, const std::string& text) {
  unsigned long value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size())
    fail(list, fmt::format("\"{}\" is no number", text));
  return value;
}

// "001-003" -> 001 002 003: as wide as the first.
void append_range(const std::string& list, const std::string& range, std::vector<std::string>& to) {
  const std::size_t dash = range.find('-');
  const std::string low = range.substr(0, dash);
  const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
  const unsigned long first = parse_number(list, low), last = parse_number(list, high);
  if (last < first || last - first >= kMaxHosts)
    fail(list, fmt::format("\"{}\" is no range", range));
  for (unsigned long n = first; n <= last; ++n) to.push_back(fmt::format("{:0{}}", n, low.size()));
}

// Several brackets in one name multiply, the last running fastest: r[0-1]n[0-1].
std::vector<std::string> expand_item(const std::string& list, const std::string& item) {
  const std::size_t open = item.find('[');
  if (open == std::string::npos) return {item};
  const std::size_t close = item.find(']', open);
  std::vector<std::string> numbers;
  std::size_t at = open + 1;
  while (at <= close) {
    const std::size_t end = std::min(item.find(',', at), close);
    append_range(list, item.substr(at, end - at), numbers);
    at = end + 1;
  }
  const auto rest = expand_item(list, item.substr(close + 1));
  if (numbers.size() * rest.size() > kMaxHosts) fail(list, "too many hosts");
  std::vector<std::string> hosts;
  for (const auto& number : numbers)
    for (const auto& tail : rest) hosts.push_back(item.substr(0, open) + number + tail);
  return hosts;
}

}  // namespace

std::vector<std::string> expand_nodelist(const std::string& list) {
  std::vector<std::string> hosts;
  if (list.empty()) return hosts;
  for (const auto& item : split(list)) {
    if (item.empty()) fail(list, "an empty name");
    const auto expanded = expand_item(list, item);
    if (hosts.size() + expanded.size() > kMaxHosts) fail(list, "too many hosts");
    hosts.insert(hosts.end(), expanded.begin(), expanded.end());
  }
  return hosts;
}

}  // namespace coeus::launch
