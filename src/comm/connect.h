#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/world.h"
#include "comm/communicator.h"
#include "comm/config.h"
#include "layout/mesh.h"

namespace coeus::comm {

struct Timeouts {
  std::chrono::milliseconds startup{1200000}, operation{600000};
};

// What each world has: one communicator for tensors on the device, one for host bytes (manifests,
// merged decisions).
struct Connection {
  std::unique_ptr<Communicator>
      device;  // nccl where each rank has a GPU, else a second one of the host's kind
  std::unique_ptr<Communicator> host;  // sockets, mpi or threads
};

// Joins the other ranks of `world`. automatic: nccl if `cuda_device` ≥ 0, else mpi under mpirun,
// else sockets. Throws CommError naming the ranks that did not come within timeouts.startup.
Connection connect(const World& world, CommBackend backend, int cuda_device,
                   const Timeouts& timeouts);

// A world of `size` ranks as threads of this process: body(world communicator pair) on each. The
// first failure aborts the rest and is rethrown.
using RankBody = std::function<void(const World&, Connection)>;
void run_threads(int size, const Timeouts& timeouts, const RankBody& body);

// The mesh's axes as communicators, opened on first use by every rank in the same order. "fsdp" and
// "fsdp.reduce" are two over the same ranks.
class Groups {
 public:
  Groups(const Mesh& mesh, Communicator& world) : mesh_(mesh), world_(world) {}
  Communicator& open(const std::string& axis, const std::string& purpose = {});
  // `size` neighbours along an axis, of which we are one.
  Communicator& open_block(const std::string& axis, std::int64_t size);
  // The ranks at these coordinates of an axis; null where we are at none of them. Collective over
  // the world, whoever takes part.
  Communicator* open_subset(const std::string& axis, const std::vector<std::int64_t>& coordinates,
                            const std::string& purpose);
  std::int64_t coordinate(const std::string& axis) const;
  void abort_all(const std::string& reason) noexcept;
  void rearm_all();
  const Mesh& mesh() const { return mesh_; }

 private:
  int world_rank() const { return world_.world_ranks()[static_cast<std::size_t>(world_.rank())]; }
  Mesh mesh_;
  Communicator& world_;
  std::map<std::string, std::unique_ptr<Communicator>> open_;
};

// Host bytes over any CPU communicator.
std::vector<std::string> all_gather_bytes(Communicator& host, const std::string& mine);
std::string broadcast_bytes(Communicator& host, const std::string& bytes, int root = 0);

}  // namespace coeus::comm
