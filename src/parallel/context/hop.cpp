#include "parallel/context/hop.h"

#include "core/torch.h"

namespace coeus::parallel {

Hop::Hop(comm::Communicator& ring, Tensor leaving)
    : leaving_(std::move(leaving)), arriving_(at::empty_like(leaving_)) {
  const int n = ring.size(), next = (ring.rank() + 1) % n, previous = (ring.rank() + n - 1) % n;
  const comm::CollectiveOptions options{.label = "attention.core ring"};
  ring.group_begin();
  pending_send_ = ring.send(leaving_, next, options);
  pending_receive_ = ring.recv(arriving_, previous, options);
  ring.group_end();
}

Tensor Hop::arrive() {
  pending_receive_.wait();
  pending_send_.wait();
  leaving_ = Tensor();
  return std::move(arriving_);
}

}  // namespace coeus::parallel
