#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "launch/environments/environments.h"

namespace coeus::launch {
namespace {

// The socket our launcher bound to MASTER_PORT and left open for rank 0, made to listen. A stale
// variable (a shell started below rank 0) names something else, or nothing: then -1.
int inherited_socket(int fd, int port) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (fd < 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return -1;
  int bound = 0;
  if (address.ss_family == AF_INET)
    bound = ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6)
    bound = ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return bound == port && listen(fd, SOMAXCONN) == 0 ? fd : -1;
}

}  // namespace

Finding find_torchrun(const Environment& environment) {
  // RANK alone is what a shell below some rank inherits, MASTER_* what images preset: not evidence.
  if (!environment("RANK") || !environment("WORLD_SIZE")) return {};
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (!environment(name))
      return {{},
              fmt::format(
                  "{}: a torchrun world needs all of them",
                  show_variables(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK",
                                               "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}))};
  check_index(environment, "RANK", "WORLD_SIZE");
  check_index(environment, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  World world;
  world.source = "torchrun";
  world.rank = *read_integer(environment, "RANK");
  world.size = *read_integer(environment, "WORLD_SIZE");
  world.local_rank = *read_integer(environment, "LOCAL_RANK");
  world.local_size = *read_integer(environment, "LOCAL_WORLD_SIZE");
  if (world.local_size > world.size)
    throw UsageError(fmt::format("{} is impossible: a node has no more ranks than the world",
                                 show_variables(environment, {"LOCAL_WORLD_SIZE", "WORLD_SIZE"})));
  world.num_nodes = (world.size + world.local_size - 1) / world.local_size;
  world.node_rank = world.rank / world.local_size;
  if (environment("GROUP_RANK") && environment("GROUP_WORLD_SIZE")) {
    check_index(environment, "GROUP_RANK", "GROUP_WORLD_SIZE");
    world.node_rank = *read_integer(environment, "GROUP_RANK");
    world.num_nodes = *read_integer(environment, "GROUP_WORLD_SIZE");
  }
  read_master(environment, world);
  world.store_is_served = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (world.rank == 0 && environment("COEUS_LISTEN_FD"))
    world.listen_fd =
        inherited_socket(*read_integer(environment, "COEUS_LISTEN_FD"), world.master_port);
  return {world, {}};
}

}  // namespace coeus::launch
