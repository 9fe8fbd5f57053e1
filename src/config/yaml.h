#pragma once
#include <string>
#include <string_view>

#include "config/value.h"

namespace coeus::config {

// YAML text as one tree. Faults (syntax, duplicate keys, anchors, tags, size) go to the report;
// what could be read is returned.
Value parse_yaml(std::string_view text, const std::string& file, Report& report);

}  // namespace coeus::config
