// One rank of the layout-equivalence fixture as a process; joins the world that started it
// (launcher or mpirun). Rank 0 compares with one rank of its own and exits 0 if every bound holds.
#include <fmt/format.h>

#include "launch/environment.h"
#include "tests/train/layouts.h"

int main() {
  using namespace coeus;
  using namespace coeus::testing;
  const World world = launch::detect_world(launch::process_environment());
  comm::Connection connection = comm::connect(world, CommBackend::automatic, -1, {});
  int faults = 0;
  const std::vector<std::pair<const char*, LayoutRun>> cases = {
      {"shard", {.micro_batch = 2, .steps = 50}},
      {"replicate, tied",
       {.sizes = {.dp_replicate = world.size},
        .micro_batch = 1,
        .steps = 50,
        .model = "llama_tied"}},
      {"both", {.sizes = {.dp_replicate = 2}, .micro_batch = 2, .steps = 50}}};
  for (const auto& [name, run] : cases) {
    const LayoutResult mine = run_rank(run, world, connection);
    if (world.rank != 0) continue;
    const LayoutResult reference = run_threads({.steps = run.steps, .model = run.model});
    std::string fault = compare_gradients(reference, mine) + compare_losses(reference, mine);
    if (mine.initial_hash != reference.initial_hash) fault += "initial weights differ";
    fmt::print("{} ranks from {}, {}: {}\n", world.size, world.source, name,
               fault.empty() ? "ok" : fault);
    faults += fault.empty() ? 0 : 1;
  }
  connection.host->barrier();
  return faults;
}
