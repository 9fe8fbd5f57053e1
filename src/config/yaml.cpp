#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "config/scalar.h"

namespace coeus::config {
namespace {

constexpr std::size_t kMaxBytes = 4 << 20, kMaxNodes = 100000, kMaxDepth = 32;

struct Refused {  // ends the parse of a document that cannot be meant well
  YAML::Mark mark;
  std::string message;
};

// yaml-cpp resolves aliases, keeps one of two equal keys and recurses without a limit when it
// builds its own tree: so the tree is built here, from its events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string file, Report& report) : file_(std::move(file)), report_(report) {}
  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "?", anchor);
    add(mark, Value{});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark, "aliases (*name) are not allowed: write the value out, or use base"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check(mark, tag, anchor);
    Value value = Value::text(text);
    value.plain = tag != "!";
    if (value.plain && is_null_word(text)) value.kind = Value::Kind::null;
    add(mark, std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    open(mark, Value::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    open(mark, Value::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Value value;
    bool has_key = false;
    std::string key;
    Origin key_origin;
    std::string path;
  };

  Origin origin(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refused{mark, "anchors (&name) are not allowed"};
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused{mark, fmt::format("the tag {} is not allowed", tag)};
    }
    if (++nodes_ > kMaxNodes) throw Refused{mark, fmt::format("more than {} values", kMaxNodes)};
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().value.kind == Value::Kind::map && !open_.back().has_key;
  }

  std::string path_of_next() const {
    if (open_.empty()) return "";
    const Open& top = open_.back();
    const std::string step =
        top.value.kind == Value::Kind::map ? top.key : std::to_string(top.value.items.size());
    return top.path.empty() ? step : top.path + "." + step;
  }

  void add(const YAML::Mark& mark, Value value) {
    if (expects_key()) {
      Open& top = open_.back();
      top.has_key = true;
      top.key = value.scalar;
      top.key_origin = origin(mark);
      if (value.kind == Value::Kind::null && value.scalar.empty()) {
        report_.add(top.key_origin, top.path, "a key is empty");
      }
      return;
    }
    value.origin = value.kind == Value::Kind::null && !open_.empty() && open_.back().has_key
                       ? open_.back().key_origin
                       : origin(mark);
    place(std::move(value));
  }

  void place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& top = open_.back();
    if (top.value.kind == Value::Kind::list) {
      value.key_origin = value.origin;
      top.value.items.push_back(std::move(value));
      return;
    }
    value.key_origin = top.key_origin;
    if (const Value* first = top.value.find(top.key)) {
      report_.add(top.key_origin, path_of_next(),
                  fmt::format("duplicate key, first given at line {}", first->key_origin.line));
    } else {
      top.value.entries.emplace_back(top.key, std::move(value));
    }
    top.has_key = false;
  }

  void open(const YAML::Mark& mark, Value::Kind kind) {
    if (expects_key()) throw Refused{mark, "a key must be a plain word"};
    if (open_.size() == kMaxDepth) {
      throw Refused{mark, fmt::format("nested deeper than {} levels", kMaxDepth)};
    }
    Open opened;
    opened.path = path_of_next();
    opened.value.kind = kind;
    opened.value.origin = origin(mark);
    open_.push_back(std::move(opened));
  }

  void close() {
    Value done = std::move(open_.back().value);
    open_.pop_back();
    place(std::move(done));
  }

  std::string file_;
  Report& report_;
  Value root_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
};

}  // namespace

Value parse_yaml(std::string_view text, const std::string& file, Report& report) {
  if (text.size() > kMaxBytes) {
    report.add({file, 1, 1}, "", fmt::format("{} bytes, more than 4 MiB", text.size()));
    report.unreadable = true;
    return Value::map();
  }
  TreeBuilder builder(file, report);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return Value::map();
    TreeBuilder second(file, report);
    if (parser.HandleNextDocument(second)) {
      report.add({file, 1, 1}, "", "holds more than one YAML document");
    }
  } catch (const Refused& refused) {
    report.add({file, refused.mark.line + 1, refused.mark.column + 1}, "", refused.message);
    report.unreadable = true;
    return Value::map();
  } catch (const YAML::Exception& e) {
    report.add({file, std::max(e.mark.line, 0) + 1, std::max(e.mark.column, 0) + 1}, "",
               "not valid YAML: " + e.msg);
    report.unreadable = true;
    return Value::map();
  }
  return builder.take();
}

}  // namespace coeus::config
