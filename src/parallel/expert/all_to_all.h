#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace coeus::parallel {

// How many rows go to each rank of a group and come from it.
struct RowTraffic {
  std::vector<std::int64_t> send, receive;
  RowTraffic reversed() const { return {receive, send}; }
};

// x [Σ send, D], ordered by receiver -> [Σ receive, D], ordered by sender. Differentiable: the
// gradient's rows travel the other way, on every rank of the group.
Tensor all_to_all_rows(const Tensor& x, const RowTraffic& traffic, comm::Communicator& group,
                       const std::string& label);

}  // namespace coeus::parallel
