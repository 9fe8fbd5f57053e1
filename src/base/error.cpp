#include "base/error.h"

namespace coeus {

void assertion_failed(const char* condition, const char* file, int line, const std::string& why) {
  throw AssertionError(fmt::format("{}:{}: assertion failed: {}{}{}", file, line, condition,
                                   why.empty() ? "" : ": ", why));
}

}  // namespace coeus
