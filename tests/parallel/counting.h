#pragma once
#include <memory>

#include "comm/communicator.h"

namespace coeus::testing {

// What one rank called and received; written by its thread alone.
struct Count {
  std::int64_t calls = 0;
  std::int64_t elements =
      0;  // received from other ranks; an all-reduce as received_elements() says
};

// Forwards to `inner`, which must outlive it, and counts.
std::unique_ptr<comm::Communicator> make_counting(comm::Communicator& inner, Count& count);

}  // namespace coeus::testing
