#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace coeus::comm {

enum class Op : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  recv,
  barrier,
  split,
};
const char* to_string(Op op);
const char* to_string(ReduceOp op);

// What one rank asked for, in the words that errors, deadlines and records use.
struct Operation {
  Op op = Op::barrier;
  at::ScalarType dtype = at::ScalarType::Byte;
  std::int64_t count = 0;  // elements each rank contributes (reduce_scatter: receives); all_to_all:
                           // elements of a row
  ReduceOp reduce = ReduceOp::sum;
  int peer = -1;  // root, to or from; rank within the group
  std::string label;
};
std::string describe(const Operation& operation);    // all_reduce(sum) of 1024 Float "blocks.0"
bool agree(const Operation& a, const Operation& b);  // may meet each other; labels are free

inline bool is_pairwise(const Operation& operation) {
  return operation.op == Op::send || operation.op == Op::recv;
}

// "rank 3", "ranks 1, 2 and 5"; a long list is cut.
std::string name_ranks(const std::vector<int>& ranks);
std::string format_seconds(double seconds);

// These check what was passed (contiguous, one dtype, sizes that fit) and describe it.
Operation all_reduce_operation(const Tensor& tensor, ReduceOp op, const CollectiveOptions& options);
Operation all_gather_operation(const Tensor& output, const Tensor& input, int size,
                               const CollectiveOptions& options);
Operation reduce_scatter_operation(const Tensor& output, const Tensor& input, int size, ReduceOp op,
                                   const CollectiveOptions& options);
Operation all_to_all_operation(const Tensor& output, const Tensor& input,
                               const std::vector<std::int64_t>& receive_rows,
                               const std::vector<std::int64_t>& send_rows, int size,
                               const CollectiveOptions& options);
Operation broadcast_operation(const Tensor& tensor, int root, int size,
                              const CollectiveOptions& options);
Operation send_operation(const Tensor& tensor, int to, int size, const CollectiveOptions& options);
Operation recv_operation(const Tensor& tensor, int from, int size,
                         const CollectiveOptions& options);
Operation barrier_operation(const CollectiveOptions& options);
Operation split_operation(const std::string& name);

}  // namespace coeus::comm
