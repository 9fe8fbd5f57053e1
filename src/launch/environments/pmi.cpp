#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {

Finding find_pmi(const Environment& environment) {
  if (!environment("PMI_RANK") || !environment("PMI_SIZE")) return {};
  check_index(environment, "PMI_RANK", "PMI_SIZE");
  World world;
  world.source = "pmi";
  world.rank = *read_integer(environment, "PMI_RANK");
  world.size = *read_integer(environment, "PMI_SIZE");
  for (const char* name : {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MASTER_ADDR", "MASTER_PORT"})
    if (world.size > 1 && !environment(name))
      return {{},
              fmt::format(
                  "{}: a PMI world needs all of them (PMI names no master)",
                  show_variables(environment, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                               "MPI_LOCALNRANKS", "MASTER_ADDR", "MASTER_PORT"}))};
  if (world.size > 1) {
    check_index(environment, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
    world.local_rank = *read_integer(environment, "MPI_LOCALRANKID");
    world.local_size = *read_integer(environment, "MPI_LOCALNRANKS");
    world.num_nodes = (world.size + world.local_size - 1) / world.local_size;
    world.node_rank = world.rank / world.local_size;
    read_master(environment, world);
  }
  return {world, {}};
}

}  // namespace coeus::launch
