#include "coeus/config/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/scalar.h"
#include "config/suggest.h"
#include "config/value.h"

namespace coeus::config {
namespace {

std::string join(const std::string& path, std::string_view step) {
  return path.empty() ? std::string(step) : fmt::format("{}.{}", path, step);
}

std::string shown(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::list:
      return "a list";
    case Value::Kind::map:
      return "a map";
    case Value::Kind::scalar:
      break;
  }
  const std::string text =
      value.scalar.size() > 60 ? value.scalar.substr(0, 57) + "..." : value.scalar;
  return value.plain ? fmt::format("'{}'", text) : fmt::format("the string \"{}\"", text);
}

std::string range_text(const Limits& limits) {
  std::string text;
  if (limits.min) text = fmt::format("{} {}", limits.min_excluded ? ">" : "≥", *limits.min);
  if (limits.max) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", limits.max_excluded ? "<" : "≤",
                        *limits.max);
  }
  if (!limits.choices.empty()) text = fmt::format("{}", fmt::join(limits.choices, " | "));
  if (limits.required) text += text.empty() ? "required" : ", required";
  return text;
}

bool within(const Slot& slot, double value) {
  const Limits* l = slot.limits();
  if (!l) return true;
  const bool low = l->min && (l->min_excluded ? value <= *l->min : value < *l->min);
  const bool high = l->max && (l->max_excluded ? value >= *l->max : value > *l->max);
  return !low && !high;
}

// The scalar as Parse reads it, or a fault that says what was expected.
template <class T, class Parse>
void read_number(Slot& slot, T& value, Parse parse, const char* expected) {
  const Value& given = slot.value();
  const auto parsed =
      given.kind == Value::Kind::scalar && given.plain ? parse(given.scalar) : std::nullopt;
  if (!parsed) return slot.fault(fmt::format("must be {}, is {}", expected, shown(given)));
  if (!within(slot, static_cast<double>(*parsed))) {
    return slot.fault(fmt::format("must be {}, is {}", range_text(*slot.limits()), given.scalar));
  }
  value = *parsed;
}

void write_scalar(Slot& slot, std::string text, const char* type) {
  slot.value().kind = Value::Kind::scalar;
  slot.value().scalar = std::move(text);
  slot.set_type(type);
}

bool is_scalar(Slot& slot, const char* expected) {
  if (slot.value().kind == Value::Kind::scalar) return true;
  slot.fault(fmt::format("must be {}, is {}", expected, shown(slot.value())));
  return false;
}

}  // namespace

// ---- Slot
void Slot::fault(const std::string& message) {
  report_.add(value_.origin, path_, message);
}
std::size_t Slot::num_faults() const {
  return report_.faults.size();
}
bool Slot::is_null() const {
  return value_.kind == Value::Kind::null;
}
void Slot::set_null() {
  value_.kind = Value::Kind::null;
  value_.scalar.clear();
}
void Slot::set_type(const std::string& type) {
  value_.type = type;
}
void Slot::append_type(const std::string& more) {
  value_.type += more;
}
bool Slot::is_list() const {
  return value_.kind == Value::Kind::list;
}

std::optional<std::size_t> Slot::open_list() {
  if (value_.kind != Value::Kind::list) {
    fault(fmt::format("must be a list, is {}", shown(value_)));
    return std::nullopt;
  }
  if (value_.items.empty() && limits_ && limits_->not_empty) fault("must not be empty");
  return value_.items.size();
}

void Slot::make_list(std::size_t size) {
  if (reading()) {
    Value list;
    list.kind = Value::Kind::list;
    list.origin = value_.origin;
    list.key_origin = value_.key_origin;
    list.items.push_back(std::move(value_));
    value_ = std::move(list);
    return;
  }
  value_.kind = Value::Kind::list;
  value_.items.resize(size);
}

Slot Slot::item(std::size_t index) {
  static const Limits kNone;
  const bool numeric = limits_ && (limits_->min || limits_->max || !limits_->choices.empty());
  return {mode_, value_.items[index], join(path_, std::to_string(index)),
          numeric ? limits_ : &kNone, report_};
}

// ---- Fields
Fields::Fields(Slot& slot) : slot_(slot) {
  Value& value = slot_.value();
  if (!reading()) {
    value.kind = Value::Kind::map;
    value.type = "section";
  }
}

Fields& Fields::short_form(std::string_view key) {
  short_form_ = key;
  Value& value = slot_.value();
  if (reading() && value.kind == Value::Kind::scalar) {
    Value map = Value::map();
    map.origin = value.origin;
    map.key_origin = value.key_origin;
    map[short_form_] = std::move(value);
    value = std::move(map);
  }
  return *this;
}

Fields& Fields::origin(std::string& where) {
  if (reading()) where = slot_.value().origin.str();
  return *this;
}

Fields& Fields::accept_unknown_keys() {
  accept_unknown_ = true;
  return *this;
}

bool Fields::has(std::string_view name) const {
  const Value* value = slot_.value().find(name);
  return value && value->kind != Value::Kind::null;
}

void Fields::fault(std::string_view name, const std::string& message) {
  const Value* value = slot_.value().at_path(name);
  slot_.report().add(value ? value->origin : slot_.value().origin, join(slot_.path(), name),
                     message);
}

bool Fields::faulty(std::string_view name) const {
  return slot_.report().concerns(join(slot_.path(), name));
}

void Fields::declare(std::string_view name) {
  names_.emplace_back(name);
}

std::optional<Slot> Fields::open(std::string_view name, std::string_view doc, const Limits& limits,
                                 Shape shape) {
  names_.emplace_back(name);
  Value& map = slot_.value();
  if (reading()) {
    if (map.kind != Value::Kind::map) {
      if (usable_) slot_.fault(fmt::format("must be a map of keys, is {}", shown(map)));
      usable_ = false;
      return std::nullopt;
    }
    Value* value = map.find(name);
    if (shape == Shape::section && (!value || value->kind == Value::Kind::null)) {
      value = &map[std::string(name)];
      value->kind = Value::Kind::map;
      if (!value->origin) value->origin = value->key_origin = map.key_origin;
    }
    if (!value || value->kind == Value::Kind::null) {
      if (limits.required) {
        slot_.report().add(value ? value->origin : map.key_origin, join(slot_.path(), name),
                           "is required");
      }
      return std::nullopt;
    }
    return Slot(Mode::read, *value, join(slot_.path(), name), &limits, slot_.report());
  }
  Value& value = map[std::string(name)];
  value.doc = doc;
  value.range = range_text(limits);
  return Slot(mode(), value, join(slot_.path(), name), &limits, slot_.report());
}

void Fields::close() {
  Value& map = slot_.value();
  if (!reading()) {
    // what the short form can say is written in it
    const bool simple = std::all_of(map.entries.begin(), map.entries.end(), [&](const auto& e) {
      return e.first == short_form_ || e.second.kind == Value::Kind::null;
    });
    if (mode() == Mode::write && !short_form_.empty() && simple) {
      Value only = std::move(map[short_form_]);
      map = std::move(only);
    }
    return;
  }
  if (map.kind != Value::Kind::map || accept_unknown_) return;
  for (const auto& [key, value] : map.entries) {
    if (std::find(names_.begin(), names_.end(), key) != names_.end()) continue;
    slot_.report().add(value.key_origin, join(slot_.path(), key),
                       "unknown key" + did_you_mean(key, names_));
    slot_.report().faults.back().unknown_key = true;
  }
}

// ---- types
void visit(Slot& slot, bool& value) {
  if (!slot.reading()) return write_scalar(slot, value ? "true" : "false", "true | false");
  const Value& given = slot.value();
  if (given.kind == Value::Kind::scalar && given.plain) {
    if (given.scalar == "true") return void(value = true);
    if (given.scalar == "false") return void(value = false);
  }
  slot.fault("must be true or false, is " + shown(given));
}

void visit(Slot& slot, std::int64_t& value) {
  if (!slot.reading()) return write_scalar(slot, std::to_string(value), "integer");
  read_number(slot, value, parse_count, "an integer (1000, 10K, 4Ki)");
}

void visit(Slot& slot, double& value) {
  if (!slot.reading()) return write_scalar(slot, print_number(value), "number");
  read_number(slot, value, parse_number, "a number");
}

void visit(Slot& slot, Duration value) {
  if (!slot.reading()) return write_scalar(slot, print_duration(value.seconds), "duration");
  read_number(slot, value.seconds, parse_duration, "a duration (30s, 10m, 2h)");
}

void visit(Slot& slot, Bytes value) {
  if (!slot.reading()) return write_scalar(slot, print_bytes(value.count), "size");
  read_number(slot, value.count, parse_bytes, "a size (64KiB, 5GiB)");
}

void visit(Slot& slot, std::string& value) {
  const Limits* limits = slot.limits();
  if (!slot.reading()) {
    write_scalar(slot, value, limits && !limits->choices.empty() ? "word" : "string");
    slot.value().plain = false;
    return;
  }
  if (!is_scalar(slot, "a string")) return;
  const std::string& given = slot.value().scalar;
  if (limits && limits->not_empty && given.empty()) return slot.fault("must not be empty");
  if (limits && !limits->choices.empty()) {
    std::size_t index = 0;
    return visit_word(slot, limits->choices, index), void(value = limits->choices[index]);
  }
  value = given;
}

void visit_word(Slot& slot, const std::vector<std::string>& words, std::size_t& index) {
  if (!slot.reading()) {
    write_scalar(slot, words[index], "word");
    slot.value().plain = false;
    slot.value().range = fmt::format("{}", fmt::join(words, " | "));
    return;
  }
  if (!is_scalar(slot, "a word")) return;
  const std::string& given = slot.value().scalar;
  const auto found = std::find(words.begin(), words.end(), given);
  if (found == words.end()) {
    return slot.fault(fmt::format("must be one of {}, is '{}'{}", fmt::join(words, ", "), given,
                                  did_you_mean(given, words)));
  }
  index = static_cast<std::size_t>(found - words.begin());
}

}  // namespace coeus::config
