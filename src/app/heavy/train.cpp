#include <atomic>
#include <csignal>

#include "app/build_info.h"
#include "app/heavy/commands.h"
#include "base/error.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "launch/environment.h"
#include "train/session.h"

namespace coeus::app {
namespace {

std::atomic<int> stop_signal{0};  // signal handlers can reach nothing else
static_assert(std::atomic<int>::is_always_lock_free);

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { stop_signal.store(signal); };
  action.sa_flags = SA_RESTART;
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&handled, signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);  // the launcher starts ranks with them blocked
}

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  int num_threads = 1;  // ranks, with comm.ranks: threads
};

TrainArguments parse(const Arguments& arguments) {
  TrainArguments out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--nproc" && i + 1 < arguments.size()) {
      out.num_threads = std::stoi(arguments[++i]);
    } else if (out.config.empty()) {
      out.config = arguments[i];
    } else {
      out.overrides.push_back(arguments[i]);
    }
  }
  if (out.config.empty()) throw UsageError("train needs a configuration");
  return out;
}

at::Device choose_device(const World& world, CommBackend backend) {
  const int devices = core::device_count();
  const bool on_gpu =
      devices > 0 && (backend == CommBackend::automatic || backend == CommBackend::nccl);
  if (!on_gpu) {
    if (backend == CommBackend::nccl)
      throw ConfigError("comm.backend: nccl, but no GPU is visible");
    return at::kCPU;
  }
  // Where each task was given one GPU of its own, that is the first it sees.
  if (devices == 1 && world.source != "alone") return {at::kCUDA, 0};
  if (world.local_rank >= devices)
    throw ConfigError(fmt::format("rank {} is number {} on its machine, which shows {} GPUs",
                                  world.rank, world.local_rank, devices));
  return {at::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank)};
}

Json build_stamps() {
  const BuildInfo info = build_info();
  return {{"version", "coeus " + info.version},
          {"git_commit", info.git_commit},
          {"modified", info.is_modified},
          {"libtorch", info.libtorch},
          {"cuda", info.cuda},
          {"nccl", info.nccl},
          {"mpi", info.mpi}};
}

train::Outcome run_rank(const LoadedJob& job, const World& world, comm::Connection connection,
                        at::Device device, const Registry& registry) {
  core::use_device(device);
  auto log = make_logger({.level = world.rank == 0 ? "info" : "error",
                          .prefix = world.size > 1 ? fmt::format("[rank{}] ", world.rank) : ""});
  std::unique_ptr<train::Session> session;
  try {
    train::SessionOptions options{.job = job,
                                  .world = world,
                                  .device = device,
                                  .registry = &registry,
                                  .log = log,
                                  .stop_signal = &stop_signal,
                                  .build = build_stamps()};
    options.connection = std::move(connection);
    session = std::make_unique<train::Session>(std::move(options));
    return train::run(*session);
  } catch (const std::exception& e) {
    // A session that was never whole has closed its connections already, which the others notice.
    if (session) session->abort(fmt::format("rank {}: {}", world.rank, e.what()));
    throw;
  }
}

int exit_code(train::Outcome outcome) {
  switch (outcome) {
    case train::Outcome::finished:
      return static_cast<int>(ExitCode::finished);
    case train::Outcome::saved:
      return static_cast<int>(ExitCode::saved);
    case train::Outcome::non_finite:
      return static_cast<int>(ExitCode::failed);
  }
  return static_cast<int>(ExitCode::failed);
}

}  // namespace

int train(const Arguments& arguments) {
  const TrainArguments given = parse(arguments);
  install_signal_handlers();
  World world = launch::detect_world(launch::process_environment());
  const LoadedJob probe = load_job(given.config, given.overrides);
  const bool threads = probe.config.comm.ranks == RankKind::threads;
  const LoadedJob job = load_job(given.config, given.overrides,
                                 {.world_size = threads ? given.num_threads : world.size});
  const comm::Timeouts timeouts{std::chrono::milliseconds(static_cast<std::int64_t>(
                                    job.config.guards.startup_timeout_seconds * 1000)),
                                std::chrono::milliseconds(static_cast<std::int64_t>(
                                    job.config.guards.timeout_seconds * 1000))};
  const Registry registry = builtin_registry();
  if (!threads) {
    const at::Device device = choose_device(world, job.config.comm.backend);
    auto connection = comm::connect(world, job.config.comm.backend,
                                    device.is_cuda() ? device.index() : -1, timeouts);
    return exit_code(run_rank(job, world, std::move(connection), device, registry));
  }
  if (given.num_threads > 1) core::set_cpu_threads(1);
  std::atomic<int> outcome{0};
  comm::run_threads(
      given.num_threads, timeouts, [&](const World& rank, comm::Connection connection) {
        const auto mine = run_rank(job, rank, std::move(connection), at::kCPU, registry);
        if (rank.rank == 0) outcome = exit_code(mine);
      });
  return outcome;
}

}  // namespace coeus::app
