#include "config/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "config/yaml.h"

namespace coeus::config {
namespace {

constexpr std::size_t kMaxBases = 16;

void split_path(const std::string& path, std::vector<std::string>& steps) {
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    steps.push_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  steps.push_back(path.substr(begin));
}

void remove_path(Value& tree, const std::string& path) {
  Value* here = const_cast<Value*>(std::as_const(tree).at_path(path));
  if (here) here->kind = Value::Kind::null;
}

void merge(Value& below, Value above) {
  if (below.kind != Value::Kind::map || above.kind != Value::Kind::map) {
    below = std::move(above);
    return;
  }
  below.origin = above.origin;
  if (above.key_origin) below.key_origin = above.key_origin;
  for (auto& [key, value] : above.entries) merge(below[key], std::move(value));
}

// Lays one layer over another.
void overlay(Value& below, Value above, const TreeOptions& options) {
  for (const auto& group : options.exclusive) {
    const bool given = std::any_of(group.begin(), group.end(), [&](const std::string& path) {
      const Value* value = std::as_const(above).at_path(path);
      return value && value->kind != Value::Kind::null;
    });
    if (!given) continue;
    for (const std::string& path : group) remove_path(below, path);
  }
  merge(below, std::move(above));
}

Value load_layer(const Source& source, const TreeOptions& options, Report& report,
                 std::vector<std::string> above) {
  Value tree = parse_yaml(source.text, source.name, report);
  if (tree.kind == Value::Kind::null) tree = Value::map();
  if (tree.kind != Value::Kind::map) {
    report.add({source.name, 1, 1}, "", "must be a map of sections");
    return Value::map();
  }
  const auto base = std::find_if(tree.entries.begin(), tree.entries.end(),
                                 [](const auto& entry) { return entry.first == "base"; });
  if (base == tree.entries.end()) return tree;
  const Value value = std::move(base->second);
  tree.entries.erase(base);
  if (value.kind == Value::Kind::null) return tree;
  if (value.kind != Value::Kind::scalar) {
    report.add(value.origin, "base", "must be the name of one file");
    return tree;
  }
  try {
    const Source found = options.find(value.scalar, source.name);
    above.push_back(source.name);
    if (std::find(above.begin(), above.end(), found.name) != above.end()) {
      report.add(value.origin, "base", found.name + " inherits from itself");
    } else if (above.size() > kMaxBases) {
      report.add(value.origin, "base", fmt::format("more than {} files in a row", kMaxBases));
    } else {
      Value below = load_layer(found, options, report, std::move(above));
      overlay(below, std::move(tree), options);
      return below;
    }
  } catch (const Error& e) {
    report.add(value.origin, "base", e.what());
  }
  return tree;
}

std::optional<std::size_t> list_index(const std::string& step, std::size_t size) {
  std::size_t index = 0;
  const char* end = step.data() + step.size();
  const auto [stop, error] = std::from_chars(step.data(), end, index);
  if (error != std::errc{} || stop != end || index >= size) return std::nullopt;
  return index;
}

void set_origin(Value& value, const Origin& origin) {
  value.origin = value.key_origin = origin;
  for (Value& item : value.items) set_origin(item, origin);
  for (auto& [key, entry] : value.entries) set_origin(entry, origin);
}

}  // namespace

Value load_tree(const Source& source, const TreeOptions& options, Report& report) {
  return load_layer(source, options, report, {});
}

void apply_override(Value& tree, const std::string& override, const TreeOptions& options,
                    Report& report) {
  const Origin origin{"command line", 0, 0};
  const std::size_t dashes = override.starts_with("--") ? 2 : 0;
  const std::size_t equals = override.find('=');
  if (equals == std::string::npos || equals == dashes) {
    return report.add(origin, "", fmt::format("'{}' is not of the form key.sub=value", override));
  }
  const std::string path = override.substr(dashes, equals - dashes);
  Value value = parse_yaml(override.substr(equals + 1), origin.file, report);
  if (override.size() == equals + 1) value = Value{};
  set_origin(value, origin);

  std::vector<std::string> steps;
  split_path(path, steps);
  // An item of a list is set in place; all above it, and a value outside of lists, is a layer of
  // maps.
  Value* here = &tree;
  std::size_t list_depth = 0;
  for (std::size_t i = 0; here && i < steps.size(); ++i) {
    if (here->kind == Value::Kind::list) {
      const auto index = list_index(steps[i], here->items.size());
      if (!index) {
        return report.add(
            origin, path,
            fmt::format("the list has {} items, there is no '{}'", here->items.size(), steps[i]));
      }
      here = &here->items[*index];
      list_depth = i + 1;
    } else {
      here = here->find(steps[i]);
    }
  }
  Value layer = std::move(value);
  for (std::size_t i = steps.size(); i > list_depth; --i) {
    Value map = Value::map();
    map.origin = map.key_origin = origin;
    map[steps[i - 1]] = std::move(layer);
    layer = std::move(map);
  }
  if (list_depth == 0) return overlay(tree, std::move(layer), options);
  Value* item = &tree;
  for (std::size_t i = 0; i < list_depth; ++i) {
    item = item->kind == Value::Kind::list ? &item->items[*list_index(steps[i], item->items.size())]
                                           : item->find(steps[i]);
  }
  if (item->kind == Value::Kind::scalar && list_depth < steps.size()) {
    return report.add(origin, path, "the item is no map: give its whole value");
  }
  merge(*item, std::move(layer));
}

}  // namespace coeus::config
