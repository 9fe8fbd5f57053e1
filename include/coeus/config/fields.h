#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// How a configuration struct names its fields. One function serves reading YAML, printing, and the
// reference page:
//
//   struct BlockConfig {
//     std::int64_t dim = 512;
//     double dropout = 0;
//     void describe(config::Fields& f) {
//       f("dim", dim, "residual width", config::at_least(1))("dropout", dropout, "share dropped",
//       config::between(0, 1));
//     }
//   };
//
// The value that the struct holds before reading is the default. Fields may be bool, int64 (1K 2M
// 3B 4Ki 5Mi), double, string, an enum with an `enum_names` function, a struct with `describe`, and
// optional, vector and array of these.
namespace coeus::config {

class Fields;
class Slot;
struct Value;
struct Report;

// What a value must satisfy beyond its type.
struct Limits {
  std::optional<double> min = {}, max = {};
  bool min_excluded = false, max_excluded = false;
  std::vector<std::string> choices = {};  // of a string
  bool not_empty = false;                 // a string or list
  bool required = false;                  // must be given in the file, its default means nothing
};
inline Limits at_least(double min) {
  return {.min = min};
}
inline Limits above(double min) {
  return {.min = min, .min_excluded = true};
}
inline Limits between(double min, double max) {
  return {.min = min, .max = max};
}
inline Limits from_up_to_below(double min, double max) {
  return {.min = min, .max = max, .max_excluded = true};
}
inline Limits one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
inline Limits not_empty() {
  return {.not_empty = true};
}
inline Limits required() {
  return {.not_empty = true, .required = true};
}

// The words of an enum. Beside the enum: std::span<const config::EnumName<E>> enum_names(E);
template <class E>
struct EnumName {
  E value;
  const char* name;
};
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  enum_names(e)[0].name;
};
template <class T>
concept Describable = requires(T t, Fields& f) {
  t.describe(f);
};

template <NamedEnum E>
std::string name_of(E value) {
  for (const auto& entry : enum_names(value)) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

// Views of a field that is written in another way than its type suggests.
struct Duration {  // 30s 10m 2h, held in seconds
  double& seconds;
};
struct Bytes {  // 4096, 64KiB, 5GiB
  std::int64_t& count;
};
template <class T>
struct SingleOrList {  // a list of one may be written without its brackets
  std::vector<T>& items;
};
inline Duration duration(double& seconds) {
  return {seconds};
}
inline Bytes bytes(std::int64_t& count) {
  return {count};
}
template <class T>
SingleOrList<T> single_or_list(std::vector<T>& items) {
  return {items};
}

enum class Mode {
  read,
  write,
  schema
};  // schema: write, with one sample item in each list of structs

// One value on its way in or out: the place it has in the YAML tree, and the name it is reported
// under.
class Slot {
 public:
  Slot(Mode mode, Value& value, std::string path, const Limits* limits, Report& report)
      : mode_(mode), value_(value), path_(std::move(path)), limits_(limits), report_(report) {}
  Mode mode() const { return mode_; }
  bool reading() const { return mode_ == Mode::read; }
  const std::string& path() const { return path_; }
  Value& value() { return value_; }
  Report& report() { return report_; }
  const Limits* limits() const { return limits_; }
  void fault(const std::string& message);
  std::size_t num_faults() const;  // of the whole report
  bool is_null() const;
  void set_null();                         // while writing
  void set_type(const std::string& type);  // the word of the reference page
  void append_type(const std::string& more);
  bool is_list() const;
  std::optional<std::size_t> open_list();  // reading: its length, a fault if it is none
  void make_list(std::size_t size);        // writing; reading: the value becomes its only item
  Slot item(std::size_t index);

 private:
  Mode mode_;
  Value& value_;
  std::string path_;
  const Limits* limits_;
  Report& report_;
};

class Fields {
 public:
  explicit Fields(Slot& slot);

  // Names a field. The doc is one line without a full stop.
  template <class T>
  Fields& operator()(std::string_view name, T&& value, std::string_view doc, Limits limits = {});

  // A bare scalar instead of a map stands for this key. Call it before the fields.
  Fields& short_form(std::string_view key);
  // Receives file:line:col of the map.
  Fields& origin(std::string& where);
  // Keys not named by the fields are no faults: the kind they belong to is unknown.
  Fields& accept_unknown_keys();

  Mode mode() const { return slot_.mode(); }
  bool reading() const { return slot_.reading(); }
  bool has(std::string_view name) const;  // given in the file, and not null
  void fault(std::string_view name, const std::string& message);
  bool faulty(std::string_view name) const;  // a fault of it was reported
  void declare(std::string_view name);       // a key that exists but is not read here
  void close();                              // reports the keys that no field took

 private:
  enum class Shape { value, section };  // a section that is absent is read as an empty one
  std::optional<Slot> open(std::string_view name, std::string_view doc, const Limits& limits,
                           Shape shape);
  Slot& slot_;
  std::vector<std::string> names_;
  std::string short_form_;
  bool usable_ = true, accept_unknown_ = false;
};

// ---- the types a field may have
void visit(Slot& slot, bool& value);
void visit(Slot& slot, std::int64_t& value);
void visit(Slot& slot, double& value);
void visit(Slot& slot, std::string& value);
void visit(Slot& slot, Duration value);
void visit(Slot& slot, Bytes value);
// Reads or writes the index of one of `words`.
void visit_word(Slot& slot, const std::vector<std::string>& words, std::size_t& index);
template <NamedEnum E>
void visit(Slot& slot, E& value);
template <Describable T>
void visit(Slot& slot, T& value);
template <class T>
void visit(Slot& slot, std::optional<T>& value);
template <class T>
void visit(Slot& slot, std::vector<T>& items);
template <class T>
void visit(Slot& slot, SingleOrList<T> value);
template <class T, std::size_t N>
void visit(Slot& slot, std::array<T, N>& items);

template <NamedEnum E>
void visit(Slot& slot, E& value) {
  const auto table = enum_names(value);
  std::vector<std::string> words;
  std::size_t index = 0;
  for (const auto& entry : table) {
    if (entry.value == value) index = words.size();
    words.emplace_back(entry.name);
  }
  visit_word(slot, words, index);
  value = table[index].value;
}

template <Describable T>
void visit(Slot& slot, T& value) {
  Fields fields(slot);
  value.describe(fields);
  fields.close();
}

template <class T>
void visit(Slot& slot, std::optional<T>& value) {
  if (slot.reading()) {
    T read{};
    if (value) read = *value;
    const std::size_t before = slot.num_faults();
    visit(slot, read);
    if (slot.num_faults() == before) value = std::move(read);
    return;
  }
  T written{};
  if (value) written = *value;
  visit(slot, written);
  if (!value) slot.set_null();
  slot.append_type(" or null");
}

template <class T>
void visit(Slot& slot, std::vector<T>& items) {
  if (slot.reading()) {
    const auto size = slot.open_list();
    if (!size) return;
    std::vector<T> read(*size);
    for (std::size_t i = 0; i < *size; ++i) {
      Slot item = slot.item(i);
      if (item.is_null()) {
        item.fault("an item of a list must not be null");
      } else {
        visit(item, read[i]);
      }
    }
    items = std::move(read);
    return;
  }
  const bool sample = Describable<T> && slot.mode() == Mode::schema && items.empty();
  T sample_item{};
  slot.make_list(sample ? 1 : items.size());
  for (std::size_t i = 0; i < (sample ? 1 : items.size()); ++i) {
    Slot item = slot.item(i);
    visit(item, sample ? sample_item : items[i]);
  }
  slot.set_type("list");
}

template <class T>
void visit(Slot& slot, SingleOrList<T> value) {
  if (slot.reading() && !slot.is_list()) slot.make_list(1);
  visit(slot, value.items);
}

template <class T, std::size_t N>
void visit(Slot& slot, std::array<T, N>& items) {
  std::vector<T> list(items.begin(), items.end());
  visit(slot, list);
  slot.set_type("list of " + std::to_string(N));
  if (list.size() != N) return slot.fault("must be a list of " + std::to_string(N) + " items");
  for (std::size_t i = 0; i < N; ++i) items[i] = std::move(list[i]);
}

template <class T>
Fields& Fields::operator()(std::string_view name, T&& value, std::string_view doc, Limits limits) {
  const Shape shape = Describable<std::remove_cvref_t<T>> ? Shape::section : Shape::value;
  if (std::optional<Slot> slot = open(name, doc, limits, shape)) visit(*slot, value);
  return *this;
}

}  // namespace coeus::config
