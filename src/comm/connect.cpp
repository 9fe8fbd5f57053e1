#include "comm/connect.h"

#include <fmt/format.h>

#include "base/error.h"
#include "comm/fake/fake.h"
#include "comm/mpi/mpi.h"
#include "comm/nccl/nccl.h"
#include "comm/sockets/sockets.h"
#include "comm/solo.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

bool is_under_mpirun(const World& world) {
  return world.source == "openmpi" && has_mpi();
}

CommBackend choose(const World& world, CommBackend asked, int cuda_device) {
  if (asked != CommBackend::automatic) return asked;
  if (cuda_device >= 0) return CommBackend::nccl;
  return is_under_mpirun(world) ? CommBackend::mpi : CommBackend::sockets;
}

// The store is let go once every rank has read it and met the others.
Connection connect_sockets(const World& world, const Timeouts& timeouts) {
  Store store(world, timeouts.startup);
  const auto open = [&](const std::string& name) {
    const auto sockets = std::make_shared<SocketWorld>(world, store, timeouts);
    auto communicator = make_sockets(sockets, name);
    communicator->barrier({.label = "start"});
    sockets->started();
    return communicator;
  };
  auto device = open("world");
  return {.device = std::move(device), .host = open("host")};
}

Connection connect_alone(const World& world) {
  return {.device = make_solo("world", world.rank), .host = make_solo("host", world.rank)};
}

}  // namespace

Connection connect(const World& world, CommBackend backend, int cuda_device,
                   const Timeouts& timeouts) {
  const CommBackend chosen = choose(world, backend, cuda_device);
  if (chosen == CommBackend::nccl && cuda_device < 0) {
    throw ConfigError(fmt::format("comm.backend: nccl: rank {} has no GPU", world.rank));
  }
  if (chosen == CommBackend::nccl) check_nccl_is_built();
  if (chosen == CommBackend::fake) {
    const auto recording = std::make_shared<Recording>();
    return {.device = make_fake(world.rank, world.size, "world", recording),
            .host = make_fake(world.rank, world.size, "host", recording)};
  }
  if (chosen == CommBackend::mpi || (chosen == CommBackend::nccl && is_under_mpirun(world))) {
    Connection connection = connect_mpi(world, timeouts);
    if (chosen == CommBackend::nccl) {
      connection.device = make_nccl(*connection.host, "world", cuda_device, timeouts);
    }
    return connection;
  }
  if (world.size == 1) return connect_alone(world);
  Connection connection = connect_sockets(world, timeouts);
  if (chosen == CommBackend::nccl) {
    connection.device = make_nccl(*connection.host, "world", cuda_device, timeouts);
  }
  return connection;
}

}  // namespace coeus::comm
