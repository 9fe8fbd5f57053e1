#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coeus::config {

// Where a value was written.
struct Origin {
  std::string file;  // or "command line"
  int line = 0, column = 0;
  std::string str() const;  // file:line:col
  explicit operator bool() const { return !file.empty(); }
};

// A YAML value that remembers where it came from. While writing it also carries what the reference
// page says of it.
struct Value {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar = {};
  bool plain = true;  // the scalar stood without quotes
  std::vector<Value> items = {};
  std::vector<std::pair<std::string, Value>> entries = {};
  Origin origin = {}, key_origin = {};
  std::string type = {}, range = {}, doc = {};

  static Value text(std::string scalar);
  static Value map() { return {.kind = Kind::map}; }
  Value* find(std::string_view key);
  const Value* find(std::string_view key) const;
  Value& operator[](const std::string& key);          // made null at the end where it is missing
  const Value* at_path(std::string_view path) const;  // a.b.0.c; nullptr where it ends
};

struct Fault {
  Origin origin;
  std::string path, message;
  bool unknown_key = false;
  std::string str() const;  // file:line:col: path: message
};

// Collects faults, so that all can be told at once.
struct Report {
  std::string file;  // stands for the place of what is in no file
  std::vector<Fault> faults = {};
  bool unreadable = false;  // a file could not be parsed: what it lacks is not its fault
  void add(const Origin& origin, std::string path, std::string message);
  bool concerns(std::string_view path) const;  // a fault at this path, above or below it
};

}  // namespace coeus::config
