#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace coeus::models {

// Beyond these, counts of elements would leave 64 bits.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 24, kMaxLayers = 4096;

// What is wrong between a model's keys, "key: what is wrong", in the order found.
class Faults {
 public:
  bool range(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return true;
    add("{}: {} is not between {} and {}", key, value, least, most);
    return false;
  }
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    list_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  void add_below(const std::string& key, const std::vector<std::string>& faults) {
    for (const auto& fault : faults) list_.push_back(key + "." + fault);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

}  // namespace coeus::models
