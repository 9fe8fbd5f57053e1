#pragma once
#include "base/files.h"
#include "launch/launcher.h"

namespace coeus::launch {

// MASTER_PORT, held from the moment it is chosen: bound, not yet listening, to be left open for
// rank 0, which listens on it. A program that knows nothing of it may still bind the port itself
// with SO_REUSEADDR, as PyTorch's TCPStore does.
struct MasterSocket {
  files::Descriptor fd;
  int port = 0;
};

// Throws CommError where the port is taken.
MasterSocket bind_master(const LaunchOptions& options);

}  // namespace coeus::launch
