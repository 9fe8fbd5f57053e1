#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "base/error.h"

// Checks that work on any thread or process: they throw.
#define CHECK_THAT(condition, ...)                                                         \
  do {                                                                                     \
    if (!(condition))                                                                      \
      throw std::runtime_error(fmt::format("{}:{}: {} {}", __FILE__, __LINE__, #condition, \
                                           fmt::format("" __VA_ARGS__)));                  \
  } while (0)

namespace coeus::comm::testing {

// The text of the CommError that `f` must throw.
template <class F>
std::string comm_error_of(F&& f) {
  try {
    f();
  } catch (const CommError& e) {
    return e.what();
  }
  throw std::runtime_error("no CommError was thrown");
}

inline void check_contains(const std::string& text, const std::string& part) {
  CHECK_THAT(text.find(part) != std::string::npos, "('{}' is not in '{}')", part, text);
}

}  // namespace coeus::comm::testing
