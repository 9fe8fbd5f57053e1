#include <charconv>

#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {
namespace {

std::optional<int> parse_integer(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int> read_integer(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  const auto value = parse_integer(*text);
  if (!value) throw UsageError(fmt::format("{}={} is not a whole number", name, *text));
  return value;
}

std::string show_variables(const Environment& environment,
                           std::initializer_list<const char*> names) {
  std::string shown;
  for (const char* name : names) {
    const auto value = environment(name);
    shown += fmt::format("{}{}{}", shown.empty() ? "" : " ", name,
                         value ? "=" + *value : std::string(" (not set)"));
  }
  return shown;
}

void check_index(const Environment& environment, const char* index, const char* size) {
  const auto i = read_integer(environment, index), n = read_integer(environment, size);
  if (i && n && *i >= 0 && *i < *n) return;
  throw UsageError(fmt::format("{} is impossible: {} must lie between 0 and {} - 1",
                               show_variables(environment, {index, size}), index, size));
}

void read_master(const Environment& environment, World& world) {
  if (const auto address = environment("MASTER_ADDR"); address && !address->empty())
    world.master_address = *address;
  if (const auto port = read_integer(environment, "MASTER_PORT")) {
    if (*port < 1 || *port > 65535)
      throw UsageError(fmt::format("MASTER_PORT={} is not a port (1 to 65535)", *port));
    world.master_port = *port;
  }
}

int derive_port(unsigned long long job, unsigned long long step) {
  return static_cast<int>(20000 + (job * 10 + step) % 12000);
}

std::vector<int> expand_tasks_per_node(const std::string& list) {
  std::vector<int> tasks;
  std::size_t at = 0;
  while (at < list.size()) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string item = list.substr(at, end - at);
    int repeats = 1;
    if (const auto open = item.find("(x"); open != std::string::npos && item.back() == ')') {
      repeats = parse_integer(item.substr(open + 2, item.size() - open - 3)).value_or(0);
      item.resize(open);
    }
    const auto count = parse_integer(item);
    if (!count || *count < 1 || repeats < 1 || repeats > 1'000'000)
      throw UsageError(fmt::format("tasks per node \"{}\" cannot be read", list));
    tasks.insert(tasks.end(), repeats, *count);
    at = end + 1;
  }
  return tasks;
}

}  // namespace coeus::launch
