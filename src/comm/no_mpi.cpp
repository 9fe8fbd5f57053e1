#include "base/error.h"
#include "comm/mpi/mpi.h"

namespace coeus::comm {

bool has_mpi() {
  return false;
}

Connection connect_mpi(const World&, const Timeouts&) {
  throw ConfigError("comm.backend: mpi: this build has no MPI");
}

}  // namespace coeus::comm
