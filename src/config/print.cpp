#include <fmt/format.h>

#include <algorithm>

#include "config/scalar.h"
#include "config/tree.h"

namespace coeus::config {
namespace {

struct Line {
  std::string text, note;
};

void print_map(const Value& map, const std::string& path, int indent, const Note& note,
               std::vector<Line>& lines) {
  for (const auto& [key, value] : map.entries) {
    const std::string here = path.empty() ? key : path + "." + key;
    const std::string head = std::string(static_cast<std::size_t>(indent), ' ') + key + ":";
    if (value.kind == Value::Kind::map && !value.entries.empty()) {
      lines.push_back({head, ""});
      print_map(value, here, indent + 2, note, lines);
      continue;
    }
    const bool structs = value.kind == Value::Kind::list &&
                         std::any_of(value.items.begin(), value.items.end(), [](const Value& item) {
                           return item.kind == Value::Kind::map;
                         });
    if (!structs) {
      lines.push_back({head + " " + print_inline(value), note ? note(here, value) : ""});
      continue;
    }
    lines.push_back({head, note ? note(here, value) : ""});
    for (const Value& item : value.items) {
      lines.push_back(
          {std::string(static_cast<std::size_t>(indent) + 2, ' ') + "- " + print_inline(item), ""});
    }
  }
}

void visit_leaves(const Value& map, const std::string& path,
                  const std::function<void(const std::string&, const Value&)>& leaf) {
  for (const auto& [key, value] : map.entries) {
    const std::string here = path.empty() ? key : path + "." + key;
    if (value.kind == Value::Kind::map) {
      visit_leaves(value, here, leaf);
    } else {
      leaf(here, value);
    }
  }
}

}  // namespace

std::string print_inline(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return value.plain ? value.scalar : print_string(value.scalar);
    case Value::Kind::list: {
      std::string text = "[";
      for (const Value& item : value.items) {
        text += (text.size() > 1 ? ", " : "") + print_inline(item);
      }
      return text + "]";
    }
    case Value::Kind::map:
      break;
  }
  std::string text = "{";
  for (const auto& [key, entry] : value.entries) {
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", print_string(key),
                        print_inline(entry));
  }
  return text + "}";
}

void for_each_leaf(const Value& tree,
                   const std::function<void(const std::string&, const Value&)>& leaf) {
  visit_leaves(tree, "", leaf);
}

std::string print_tree(const Value& tree, const Note& note) {
  std::vector<Line> lines;
  print_map(tree, "", 0, note, lines);
  std::size_t width = 0;
  for (const Line& line : lines) {
    if (!line.note.empty()) width = std::max(width, std::min<std::size_t>(line.text.size(), 60));
  }
  std::string text;
  for (const Line& line : lines) {
    text += line.note.empty() ? line.text + "\n"
                              : fmt::format("{:<{}}  # {}\n", line.text, width, line.note);
  }
  return text;
}

}  // namespace coeus::config
