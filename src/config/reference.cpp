#include "config/reference.h"

#include "config/scalar.h"

namespace coeus::config {
namespace {

void add(const Value& value, const std::string& path, std::vector<FieldLine>& lines);

void add_map(const Value& map, const std::string& path, std::vector<FieldLine>& lines) {
  for (const auto& [key, value] : map.entries) {
    add(value, path.empty() ? key : path + "." + key, lines);
  }
}

std::string initial_text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return value.plain ? value.scalar : print_string(value.scalar);
    case Value::Kind::map:
      return "";
    case Value::Kind::list:
      break;
  }
  std::string text;
  for (const Value& item : value.items) {
    if (item.kind == Value::Kind::map) return "[]";  // the sample item of a list of structs
    text += (text.empty() ? "" : ", ") + initial_text(item);
  }
  return value.type == "list" && text == "\"\"" ? "[]" : "[" + text + "]";
}

void add(const Value& value, const std::string& path, std::vector<FieldLine>& lines) {
  if (value.kind == Value::Kind::map) {
    lines.push_back({path, "section", "", "", value.doc, true});
    return add_map(value, path, lines);
  }
  lines.push_back({path, value.type, initial_text(value), value.range, value.doc});
  if (value.kind == Value::Kind::list && !value.items.empty() &&
      value.items[0].kind == Value::Kind::map) {
    add_map(value.items[0], path + "[]", lines);
  }
}

}  // namespace

std::vector<FieldLine> list_fields(const Value& schema) {
  std::vector<FieldLine> lines;
  add_map(schema, "", lines);
  return lines;
}

}  // namespace coeus::config
