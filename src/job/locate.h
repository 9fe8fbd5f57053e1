#pragma once
#include <string>

#include "config/value.h"

namespace coeus::job {

// Where a key was written, or else the nearest section around it.
config::Origin locate(const config::Value& tree, std::string path, const config::Report& report);

}  // namespace coeus::job
