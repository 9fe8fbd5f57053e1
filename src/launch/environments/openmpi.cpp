#include <functional>

#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {

Finding find_openmpi(const Environment& environment) {
  if (!environment("OMPI_COMM_WORLD_SIZE")) return {};
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (!environment(name))
      return {
          {},
          fmt::format("{}: an Open MPI world needs all of them",
                      show_variables(environment, {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                                   "OMPI_COMM_WORLD_LOCAL_SIZE"}))};
  check_index(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  check_index(environment, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  World world;
  world.source = "openmpi";
  world.rank = *read_integer(environment, "OMPI_COMM_WORLD_RANK");
  world.size = *read_integer(environment, "OMPI_COMM_WORLD_SIZE");
  world.local_rank = *read_integer(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
  world.local_size = *read_integer(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  // Open MPI does not number nodes (its NODE_RANK is a rank within one): right where ranks are
  // placed by slot with equally many on each, its default.
  world.num_nodes = (world.size + world.local_size - 1) / world.local_size;
  world.node_rank = world.rank / world.local_size;
  // Ranks meet over MPI. For other backends: on one node any port that all ranks derive alike, on
  // several only what MASTER_ADDR and MASTER_PORT say.
  if (world.num_nodes > 1) world.master_address.clear();
  if (const auto name = environment("PMIX_NAMESPACE"))
    world.master_port = derive_port(std::hash<std::string>()(*name) % 1'000'003, 0);
  read_master(environment, world);
  return {world, {}};
}

}  // namespace coeus::launch
