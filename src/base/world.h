#pragma once
#include <string>

namespace coeus {

// Who this process is among all processes of the run, as found by launch/environments.
struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  int node_rank = 0, num_nodes = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  int listen_fd = -1;            // rank 0: an already listening socket for master_port, or -1
  bool store_is_served = false;  // torchrun's agent serves a TCPStore there: rank 0 connects too
  std::string source = "alone";  // flags | torchrun | openmpi | srun | pmi | alone
};

}  // namespace coeus
