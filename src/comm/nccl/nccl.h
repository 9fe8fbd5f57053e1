#pragma once
#include "comm/connect.h"

namespace coeus::comm {

bool has_nccl();             // built in
void check_nccl_is_built();  // throws ConfigError where it is not

// A communicator over NCCL for tensors on this rank's GPU, with the same ranks as `host`, through
// which it is set up and set up again after an abort. `host` must outlive it. Operations run on a
// stream of its own and can be captured in a CUDA graph.
std::unique_ptr<Communicator> make_nccl(Communicator& host, const std::string& name,
                                        int cuda_device, const Timeouts& timeouts);

}  // namespace coeus::comm
