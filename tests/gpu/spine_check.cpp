// What only a GPU can show of the spine; run by scripts/gpu/spine.sh. Exits 0 when every line it
// prints says ok.
#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "comm/connect.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "launch/environment.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"
#include "train/graph.h"
#include "train/step.h"

namespace {

using namespace coeus;

bool report(const std::string& what, bool ok) {
  fmt::print("{} {}\n", ok ? "ok    " : "FAILED", what);
  return ok;
}

struct Run {
  models::LlamaModelConfig config;
  comm::Groups groups;
  parallel::ParallelModel model;
  optim::AdamW optimizer;
  parallel::Pipeline pipeline;
  train::TrainStep step;

  Run(const std::string& preset, const World& world, comm::Connection& connection,
      at::Device device, at::ScalarType compute)
      : config(preset_config(preset)),
        groups(Mesh(world.size, {}), *connection.device),
        model(std::make_unique<models::Llama>(config.config),
              {.plan = config.plan(), .device = device, .compute = compute}, groups),
        optimizer(model.shards(), {}, model.segments()),
        pipeline(model, {}, groups),
        step(model, pipeline, optimizer, groups, device, 1.0) {
    model.initialise(42);
  }
  static models::LlamaModelConfig preset_config(const std::string& preset) {
    models::LlamaModelConfig config;
    config.apply_preset(preset);
    return config;
  }
};

// Every flat shard filled on the device equals, bit for bit, what the CPU fills.
bool weights_equal_the_cpus(const World& world, comm::Connection& connection, at::Device device) {
  Run gpu("124m", world, connection, device, at::kBFloat16),
      cpu("124m", world, connection, at::kCPU, at::kFloat);
  bool equal = true;
  for (std::size_t i = 0; i < gpu.model.shards().size(); ++i) {
    const Tensor a = gpu.model.shards()[i].master.cpu(), b = cpu.model.shards()[i].master;
    equal &= a.numel() == b.numel() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
  }
  return report("initial weights of 124m are the CPU's bit for bit", equal);
}

std::vector<Batch> batch_of(int step, const World& world, at::Device device) {
  const Tensor tokens =
      ((at::arange(4 * 256).view({4, 256}) * (step * 7 + 13) + world.rank * 31) % 2048).to(device);
  return {{.tokens = tokens,
           .labels = (tokens + 1) % 2048,
           .positions = at::arange(256).expand({4, 256}).contiguous().to(device)}};
}

bool replays_equal_eager(const World& world, comm::Connection& connection, at::Device device) {
  constexpr int kWarmUp = 3, kSteps = 10;
  Run eager("debug", world, connection, device, at::kBFloat16),
      captured("debug", world, connection, device, at::kBFloat16);
  std::vector<double> expected, replayed;
  for (int s = 0; s < kWarmUp + kSteps; ++s) {
    auto batch = batch_of(s, world, device);
    expected.push_back(eager.step.run(batch, 1e-3 * (s + 1)).loss);
  }
  auto fixed = batch_of(0, world, device);
  auto load = [&](int s) {
    const auto next = batch_of(s, world, device);
    fixed[0].tokens.copy_(next[0].tokens);
    fixed[0].labels.copy_(next[0].labels);
    captured.step.set_lr(1e-3 * (s + 1));
  };
  for (int s = 0; s < kWarmUp; ++s) {
    load(s);
    captured.step.device_step(fixed);
    replayed.push_back(captured.step.read().loss);
  }
  train::StepGraph graph(device);
  graph.capture([&] { captured.step.device_step(fixed); });
  for (int s = kWarmUp; s < kWarmUp + kSteps; ++s) {
    load(s);
    core::synchronize(device);
    graph.replay();
    core::synchronize(device);
    replayed.push_back(captured.step.read().loss);
  }
  for (int s = 0; s < kWarmUp + kSteps; ++s)
    fmt::print("  rank {} step {} eager {:.9f} captured {:.9f}\n", world.rank, s, expected[s],
               replayed[s]);
  return report(
      fmt::format("rank {}: {} replays of the captured step give eager's losses bit for bit",
                  world.rank, kSteps),
      expected == replayed);
}

}  // namespace

int main() {
  const World world = launch::detect_world(launch::process_environment());
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
  core::use_device(device);
  at::globalContext().setDeterministicAlgorithms(true, false);
  auto connection = comm::connect(world, CommBackend::automatic, device.index(), {});
  bool ok = true;
  if (world.size == 1) ok &= weights_equal_the_cpus(world, connection, device);
  ok &= replays_equal_eager(world, connection, device);
  return ok ? 0 : 1;
}
