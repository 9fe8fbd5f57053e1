#include "base/error.h"
#include "comm/nccl/nccl.h"

namespace coeus::comm {

bool has_nccl() {
  return false;
}

void check_nccl_is_built() {
  throw ConfigError("comm.backend: nccl: this build has no NCCL");
}

std::unique_ptr<Communicator> make_nccl(Communicator&, const std::string&, int, const Timeouts&) {
  check_nccl_is_built();
  return nullptr;
}

}  // namespace coeus::comm
