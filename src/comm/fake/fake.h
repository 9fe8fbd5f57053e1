#pragma once
#include "comm/recorder.h"

namespace coeus::comm {

// One process that plays rank `rank` of `size`: every operation returns at once. Results have the
// right shape; this rank's own part is in its place and the others' are zero. All calls are
// recorded. Works on meta tensors too.
std::unique_ptr<Communicator> make_fake(int rank, int size, const std::string& name,
                                        std::shared_ptr<Recording> recording);

}  // namespace coeus::comm
