// Runs the conformance suite under mpirun; exit 0 only if every rank agrees that each case holds.
#include <cstdio>
#include <cstdlib>

#include "tests/comm/cases.h"
#include "tests/comm/check.h"

namespace coeus::comm::testing {
namespace {

World world_of_mpirun() {
  World world;
  world.source = "openmpi";
  world.rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  world.size = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  return world;
}

std::string outcome_of(const Case& c, const World& world) {
  const Timeouts timeouts = timeouts_for(c);
  try {
    const Connection connection = connect(world, CommBackend::automatic, -1, timeouts);
    Rank rank{*connection.device, at::kCPU, timeouts.operation};
    c.run(rank);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

int run() {
  const World world = world_of_mpirun();
  const Connection control = connect(world, CommBackend::mpi, -1, timeouts_for(Case{"", nullptr}));
  int failures = 0;
  for (const Case& c : conformance_cases()) {
    if (world.size < c.min_ranks || c.needs == Needs::rearm ||
        c.needs == Needs::mismatch_detection) {
      continue;
    }
    const auto outcomes = all_gather_bytes(*control.host, outcome_of(c, world));
    for (int r = 0; r < world.size; ++r) {
      const std::string& text = outcomes[static_cast<std::size_t>(r)];
      failures += !text.empty();
      if (!text.empty() && world.rank == 0)
        std::printf("FAILED %s: [rank %d] %s\n", c.name, r, text.c_str());
    }
    if (world.rank == 0) std::printf("ran %s\n", c.name);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace coeus::comm::testing

int main() {
  return coeus::comm::testing::run();
}
