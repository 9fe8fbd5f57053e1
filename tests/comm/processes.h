#pragma once
#include <functional>

#include "base/world.h"

namespace coeus::comm::testing {

// The ranks of a world as forked processes. Throws the text of every rank that threw or died, once
// all have ended.
void run_processes(int size, const std::function<void(const World&)>& body);

}  // namespace coeus::comm::testing
