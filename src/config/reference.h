#pragma once
#include <string>
#include <vector>

#include "config/value.h"

namespace coeus::config {

struct FieldLine {
  std::string path, type, initial, range, doc;  // a list's items appear as path[]
  bool section = false;
};

// Every field of a tree written in Mode::schema, in order.
std::vector<FieldLine> list_fields(const Value& schema);

}  // namespace coeus::config
