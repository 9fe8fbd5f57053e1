#pragma once
#include <span>

namespace coeus::job {

struct BuiltinConfig {
  const char *name, *text;
};
// The files of configs/, compiled in (written by CMakeLists.txt).
std::span<const BuiltinConfig> builtin_configs();

}  // namespace coeus::job
