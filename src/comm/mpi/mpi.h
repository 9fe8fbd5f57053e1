#pragma once
#include "comm/connect.h"

namespace coeus::comm {

bool has_mpi();  // built in
// Both communicators over MPI, for CPU tensors; initialises MPI where nobody has. Throws
// ConfigError in a build without MPI.
Connection connect_mpi(const World& world, const Timeouts& timeouts);

}  // namespace coeus::comm
