#include "base/json.h"

#include <unordered_set>
#include <vector>

namespace coeus {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Builds the document by appending: nlohmann's own builder looks each key up in a list, which is
// quadratic for a vocabulary.
class Builder : public Json::json_sax_t {
 public:
  explicit Builder(Json& root) : root_(root) {}
  const std::string& fault() const { return fault_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) override {
    return add(value);
  }
  bool string(Json::string_t& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(Json::string_t& key) override {
    if (!open_.back().keys.insert(key).second) {
      fault_ = "duplicate key '" + key + "'";
      return false;
    }
    key_ = std::move(key);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& e) override {
    fault_ = "not valid JSON at byte " + std::to_string(position) + ": " + e.what();
    return false;
  }

 private:
  struct Open {
    Json value;
    std::string key;  // under which the enclosing object will hold it
    std::unordered_set<std::string> keys;
  };

  bool add(Json value) { return place(std::move(value), std::move(key_)); }

  bool place(Json value, std::string key) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Json& parent = open_.back().value;
    if (parent.is_array()) {
      parent.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      auto& object = parent.get_ref<Json::object_t&>();
      static_cast<Json::object_t::Container&>(object).emplace_back(std::move(key),
                                                                   std::move(value));
    }
    return true;
  }

  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      fault_ = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    open_.push_back({std::move(value), std::move(key_), {}});
    key_.clear();
    return true;
  }

  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return place(std::move(done.value), std::move(done.key));
  }

  Json& root_;
  std::vector<Open> open_;
  std::string key_, fault_;
};

}  // namespace

Json parse_json(std::string_view text, std::optional<std::string>& fault) {
  Json root;
  Builder builder(root);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    fault = builder.fault();
    return {};
  }
  return root;
}

}  // namespace coeus
