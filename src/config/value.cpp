#include "config/value.h"

#include <fmt/format.h>

#include <charconv>

namespace coeus::config {

std::string Origin::str() const {
  return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
}

Value Value::text(std::string scalar) {
  Value value;
  value.kind = Kind::scalar;
  value.scalar = std::move(scalar);
  return value;
}

Value* Value::find(std::string_view key) {
  for (auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Value* Value::find(std::string_view key) const {
  return const_cast<Value*>(this)->find(key);
}

Value& Value::operator[](const std::string& key) {
  if (Value* found = find(key)) return *found;
  entries.emplace_back(key, Value{});
  return entries.back().second;
}

const Value* Value::at_path(std::string_view path) const {
  const Value* here = this;
  while (here && !path.empty()) {
    const auto dot = path.find('.');
    const std::string_view step = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
    if (here->kind == Kind::list) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(step.begin(), step.end(), index);
      const bool valid = error == std::errc{} && end == step.end() && index < here->items.size();
      here = valid ? &here->items[index] : nullptr;
    } else {
      here = here->find(step);
    }
  }
  return here;
}

std::string Fault::str() const {
  return fmt::format("{}: {}{}{}", origin.str(), path, path.empty() ? "" : ": ", message);
}

void Report::add(const Origin& origin, std::string path, std::string message) {
  Origin place = origin ? origin : Origin{file, 1, 1};
  faults.push_back({std::move(place), std::move(path), std::move(message)});
}

bool Report::concerns(std::string_view path) const {
  const auto within = [](std::string_view inner, std::string_view outer) {
    return inner == outer || outer.empty() ||
           (inner.starts_with(outer) && inner.size() > outer.size() && inner[outer.size()] == '.');
  };
  for (const Fault& fault : faults) {
    if (fault.unknown_key) continue;
    if (within(fault.path, path) || within(path, fault.path)) return true;
  }
  return false;
}

}  // namespace coeus::config
