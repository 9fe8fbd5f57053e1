#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "core/torch.h"

namespace coeus::comm::testing {

// What a conformance case is given on each rank. A case throws where the contract is broken.
struct Rank {
  Communicator& communicator;  // under test
  at::Device device;
  std::chrono::milliseconds operation_timeout;
  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
};

// What a backend need not be able to do.
enum class Needs { nothing, short_deadline, mismatch_detection, rearm };

struct Case {
  const char* name;
  void (*run)(Rank&);
  int min_ranks = 1;
  Needs needs = Needs::nothing;
};
const std::vector<Case>& conformance_cases();
Timeouts timeouts_for(const Case& c);

}  // namespace coeus::comm::testing
