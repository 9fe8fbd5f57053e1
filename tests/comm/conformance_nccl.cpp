// conformance_nccl [GPUS]: the conformance suite on 1 … GPUS ranks (default: all GPUs), one forked
// process and one GPU each.
#include <cstdio>
#include <cstdlib>

#include "comm/nccl/nccl.h"
#include "core/cuda.h"
#include "tests/comm/cases.h"
#include "tests/comm/check.h"
#include "tests/comm/processes.h"

namespace coeus::comm::testing {
namespace {

using namespace std::chrono_literals;

void run_case(const Case& c, Communicator& host, int device) {
  const Timeouts timeouts = timeouts_for(c);
  const auto communicator = make_nccl(host, "world", device, timeouts);
  Rank rank{*communicator, at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)),
            timeouts.operation};
  // The first use of a communicator sets up its connections: not a part of what has a deadline.
  communicator->all_reduce(at::ones({1}, at::TensorOptions().device(rank.device)), ReduceOp::sum)
      .wait();
  communicator->barrier();
  c.run(rank);
}

void run_rank(const World& world) {
  const Connection connection =
      connect(world, CommBackend::sockets, -1, {.startup = 60s, .operation = 120s});
  const int device = world.rank;
  core::use_device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)));
  std::string failures;
  for (const Case& c : conformance_cases()) {
    if (world.size < c.min_ranks || c.needs == Needs::mismatch_detection) continue;
    std::string failure;
    try {
      run_case(c, *connection.host, device);
    } catch (const std::exception& e) {
      failure = fmt::format("{}: {}\n", c.name, e.what());
    }
    failures += failure;
    connection.device->barrier();
    if (world.rank == 0)
      std::printf("%s %s on %d\n", failure.empty() ? "ran" : "FAILED", c.name, world.size);
    std::fflush(stdout);
  }
  if (!failures.empty()) throw std::runtime_error(failures);
}

// Asked in a process of its own: CUDA does not survive a fork.
int count_gpus() {
  for (int n = 8; n > 0; --n) {
    try {
      run_processes(1, [n](const World&) {
        if (core::device_count() < n) throw std::runtime_error("fewer");
      });
      return n;
    } catch (const std::exception&) {
    }
  }
  return 0;
}

int run(int asked) {
  const int gpus = count_gpus();
  const int most = asked > 0 ? asked : gpus;
  if (gpus == 0) {
    std::printf("SKIP: no GPU\n");
    return 0;
  }
  if (most > gpus) {
    std::printf("%d GPUs asked for, %d here\n", most, gpus);
    return 2;
  }
  int failures = 0;
  for (int size = 1; size <= most; size *= 2) {
    try {
      run_processes(size, run_rank);
    } catch (const std::exception& e) {
      std::printf("FAILED on %d GPUs:\n%s\n", size, e.what());
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace coeus::comm::testing

int main(int argc, char** argv) {
  return coeus::comm::testing::run(argc > 1 ? std::atoi(argv[1]) : 0);
}
