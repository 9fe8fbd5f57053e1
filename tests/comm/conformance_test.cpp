#include <gtest/gtest.h>

#include "tests/comm/cases.h"
#include "tests/comm/processes.h"

namespace coeus::comm::testing {
namespace {

struct Backend {
  const char* name;
  std::vector<int> sizes;
  bool can_rearm;
  void (*run)(int size, const Timeouts& timeouts, const Case& c);
};

void run_case(const Case& c, Communicator& communicator, const Timeouts& timeouts) {
  Rank rank{communicator, at::kCPU, timeouts.operation};
  c.run(rank);
}

void on_threads(int size, const Timeouts& timeouts, const Case& c) {
  run_threads(size, timeouts, [&](const World&, Connection connection) {
    run_case(c, *connection.device, timeouts);
  });
}

void on_sockets(int size, const Timeouts& timeouts, const Case& c) {
  run_processes(size, [&](const World& world) {
    const Connection connection = connect(world, CommBackend::sockets, -1, timeouts);
    run_case(c, *connection.device, timeouts);
  });
}

const Backend kBackends[] = {
    {"threads", {1, 2, 3, 4, 7}, true, on_threads},
    {"sockets", {1, 2, 3, 4}, false, on_sockets},
};

class Conformance : public ::testing::TestWithParam<std::tuple<Backend, Case>> {};

TEST_P(Conformance, holds) {
  const auto& [backend, c] = GetParam();
  for (const int size : backend.sizes) {
    if (size < c.min_ranks) continue;
    if (c.needs == Needs::short_deadline && size != 4) continue;  // they take their time
    SCOPED_TRACE(std::to_string(size) + " ranks");
    ASSERT_NO_THROW(backend.run(size, timeouts_for(c), c));
  }
}

std::vector<std::tuple<Backend, Case>> all() {
  std::vector<std::tuple<Backend, Case>> result;
  for (const Backend& backend : kBackends) {
    for (const Case& c : conformance_cases()) {
      if (c.needs != Needs::rearm || backend.can_rearm) result.emplace_back(backend, c);
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(comm, Conformance, ::testing::ValuesIn(all()), [](const auto& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
});

}  // namespace
}  // namespace coeus::comm::testing
