#pragma once
#include <string>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

bool is_file_name(const std::string& name);  // ends with .yaml, .yml or .csv

// A schedule that a user wrote (docs/formats/schedule.md), checked. Throws ConfigError naming file,
// line and column of what cannot be read, and with the counter-example of what does not hold.
Schedule read_file(const std::string& path, const Shape& shape);

}  // namespace coeus::schedules
