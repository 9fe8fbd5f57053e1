#pragma once
#include "comm/communicator.h"
#include "core/tensor.h"

namespace coeus::parallel {

// A buffer on its way round the ring: to the next rank, while the previous one's arrives. Never
// blocks before arrive().
class Hop {
 public:
  Hop(comm::Communicator& ring, Tensor leaving);
  Tensor arrive();  // the buffer that came; the one that left may be written again

 private:
  Tensor leaving_, arriving_;
  comm::Work pending_send_, pending_receive_;
};

}  // namespace coeus::parallel
