#pragma once
#include "comm/communicator.h"

namespace coeus::comm {

// A group of one rank, for tensors on any device: copies where input and output differ, on the
// current stream.
std::unique_ptr<Communicator> make_solo(const std::string& name, int world_rank);

}  // namespace coeus::comm
