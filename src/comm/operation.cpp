#include "comm/operation.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

void check_tensor(const Tensor& tensor) {
  COEUS_ASSERT(tensor.defined(), "a collective was given an undefined tensor");
  COEUS_ASSERT(tensor.is_contiguous(), "a collective was given a tensor that is not contiguous");
}

void check_peer(int peer, int size) {
  COEUS_ASSERT(peer >= 0 && peer < size, "rank {} of a group of {}", peer, size);
}

void check_dtypes(const Tensor& a, const Tensor& b) {
  COEUS_ASSERT(a.scalar_type() == b.scalar_type(), "{} and {} in one collective",
               c10::toString(a.scalar_type()), c10::toString(b.scalar_type()));
}

Operation make(Op op, const Tensor& tensor, const CollectiveOptions& options) {
  check_tensor(tensor);
  Operation operation;
  operation.op = op;
  operation.dtype = tensor.scalar_type();
  operation.count = tensor.numel();
  operation.label = options.label;
  return operation;
}

void check_rows(const Tensor& tensor, const std::vector<std::int64_t>& rows, int size) {
  COEUS_ASSERT(tensor.dim() >= 1 && rows.size() == static_cast<std::size_t>(size),
               "all_to_all: {} row counts for {} ranks", rows.size(), size);
  COEUS_ASSERT(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == tensor.size(0),
               "all_to_all: the row counts do not add up to the {} rows", tensor.size(0));
}

std::int64_t row_elements(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

const char* to_string(Op op) {
  switch (op) {
    case Op::all_reduce:
      return "all_reduce";
    case Op::all_gather:
      return "all_gather";
    case Op::reduce_scatter:
      return "reduce_scatter";
    case Op::all_to_all:
      return "all_to_all";
    case Op::broadcast:
      return "broadcast";
    case Op::send:
      return "send";
    case Op::recv:
      return "recv";
    case Op::barrier:
      return "barrier";
    case Op::split:
      return "split";
  }
  return "unknown operation";
}

const char* to_string(ReduceOp op) {
  return op == ReduceOp::sum ? "sum" : op == ReduceOp::max ? "max" : "min";
}

std::string describe(const Operation& o) {
  std::string text = to_string(o.op);
  if (o.op == Op::all_reduce || o.op == Op::reduce_scatter) {
    text += fmt::format("({})", to_string(o.reduce));
  }
  if (o.op == Op::broadcast) text += fmt::format("(root {})", o.peer);
  if (o.op == Op::send) text += fmt::format("(to {})", o.peer);
  if (o.op == Op::recv) text += fmt::format("(from {})", o.peer);
  if (o.op != Op::barrier && o.op != Op::split) {
    text += fmt::format(" of {} {}", o.count, c10::toString(o.dtype));
  }
  if (!o.label.empty()) text += fmt::format(" \"{}\"", o.label);
  return text;
}

bool agree(const Operation& a, const Operation& b) {
  const bool sends =
      (a.op == Op::send && b.op == Op::recv) || (a.op == Op::recv && b.op == Op::send);
  const bool roots = sends || a.peer == b.peer;
  return (sends || a.op == b.op) && roots && a.dtype == b.dtype && a.count == b.count &&
         a.reduce == b.reduce;
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > kMost) text += fmt::format(" and {} more", ranks.size() - kMost);
  return text;
}

std::string format_seconds(double seconds) {
  return fmt::format("{:.3g} s", seconds);
}

Operation all_reduce_operation(const Tensor& tensor, ReduceOp op,
                               const CollectiveOptions& options) {
  Operation operation = make(Op::all_reduce, tensor, options);
  operation.reduce = op;
  return operation;
}

Operation all_gather_operation(const Tensor& output, const Tensor& input, int size,
                               const CollectiveOptions& options) {
  check_tensor(output);
  Operation operation = make(Op::all_gather, input, options);
  check_dtypes(output, input);
  COEUS_ASSERT(output.numel() == input.numel() * size, "all_gather of {} into {} over {} ranks",
               input.numel(), output.numel(), size);
  return operation;
}

Operation reduce_scatter_operation(const Tensor& output, const Tensor& input, int size, ReduceOp op,
                                   const CollectiveOptions& options) {
  check_tensor(input);
  Operation operation = make(Op::reduce_scatter, output, options);
  check_dtypes(output, input);
  COEUS_ASSERT(input.numel() == output.numel() * size, "reduce_scatter of {} into {} over {} ranks",
               input.numel(), output.numel(), size);
  operation.reduce = op;
  return operation;
}

Operation all_to_all_operation(const Tensor& output, const Tensor& input,
                               const std::vector<std::int64_t>& receive_rows,
                               const std::vector<std::int64_t>& send_rows, int size,
                               const CollectiveOptions& options) {
  check_tensor(output);
  Operation operation = make(Op::all_to_all, input, options);
  check_dtypes(output, input);
  check_rows(output, receive_rows, size);
  check_rows(input, send_rows, size);
  operation.count = row_elements(input);
  COEUS_ASSERT(row_elements(output) == operation.count, "all_to_all between rows of {} and {}",
               operation.count, row_elements(output));
  return operation;
}

Operation broadcast_operation(const Tensor& tensor, int root, int size,
                              const CollectiveOptions& options) {
  check_peer(root, size);
  Operation operation = make(Op::broadcast, tensor, options);
  operation.peer = root;
  return operation;
}

Operation send_operation(const Tensor& tensor, int to, int size, const CollectiveOptions& options) {
  check_peer(to, size);
  Operation operation = make(Op::send, tensor, options);
  operation.peer = to;
  return operation;
}

Operation recv_operation(const Tensor& tensor, int from, int size,
                         const CollectiveOptions& options) {
  check_peer(from, size);
  Operation operation = make(Op::recv, tensor, options);
  operation.peer = from;
  return operation;
}

Operation barrier_operation(const CollectiveOptions& options) {
  Operation operation;
  operation.label = options.label;
  return operation;
}

Operation split_operation(const std::string& name) {
  Operation operation;
  operation.op = Op::split;
  operation.label = name;
  return operation;
}

}  // namespace coeus::comm
