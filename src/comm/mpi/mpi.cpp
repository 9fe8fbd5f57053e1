#include "comm/mpi/mpi.h"

#include <fmt/format.h>

#include <climits>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "comm/mpi/group.h"
#include "comm/reduce.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

MPI_Datatype mpi_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    case at::kByte:
      return MPI_UINT8_T;
    default:
      return MPI_UINT16_T;  // 16-bit floats are only moved, never reduced by MPI
  }
}

void* data_of(const Tensor& tensor) {
  COEUS_ASSERT(tensor.is_cpu(), "MPI carries CPU tensors only");
  return tensor.data_ptr();
}

int as_int(std::int64_t count) {
  if (count > INT_MAX) {
    throw CommError(fmt::format("{} elements are more than one MPI call takes", count));
  }
  return static_cast<int>(count);
}

// MPI goes on reading and writing until a request is complete: what it uses lives here.
class MpiWork : public Work::State {
 public:
  using Finish = std::function<void()>;
  MpiWork(std::shared_ptr<MpiGroup> group, const Operation& operation,
          std::vector<MPI_Request> requests, std::vector<Tensor> used, Finish finish)
      : group_(std::move(group)),
        operation_(operation),
        sequence_(is_pairwise(operation) ? 0 : group_->next_sequence()),
        requests_(std::move(requests)),
        used_(std::move(used)),
        finish_(std::move(finish)) {}
  ~MpiWork() override {
    if (!complete_) (void)new std::vector<Tensor>(std::move(used_));  // on purpose never freed
  }
  void wait() override {
    group_->wait(requests_, operation_, sequence_);
    complete_ = true;
    if (finish_) finish_();
  }

 private:
  std::shared_ptr<MpiGroup> group_;
  Operation operation_;
  std::uint32_t sequence_;
  std::vector<MPI_Request> requests_;
  std::vector<Tensor> used_;
  Finish finish_;
  bool complete_ = false;
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  const std::vector<int>& world_ranks() const override { return group_->world_ranks(); }

  Work all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) override;
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options) override;
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                      const CollectiveOptions& options) override;
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows,
                  const CollectiveOptions& options) override;
  Work broadcast(Tensor tensor, int root, const CollectiveOptions& options) override;
  Work send(Tensor tensor, int to, const CollectiveOptions& options) override;
  Work recv(Tensor tensor, int from, const CollectiveOptions& options) override;
  void barrier(const CollectiveOptions& options) override;
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }
  void rearm() override {
    throw CommError(fmt::format("group {}: MPI cannot be rearmed after an abort", name()));
  }

 private:
  using Start = std::function<int(MPI_Request*)>;
  Work start(const Operation& operation, std::vector<Tensor> used, const Start& call,
             MpiWork::Finish finish = {}) {
    group_->check_usable();
    std::vector<MPI_Request> requests(1, MPI_REQUEST_NULL);
    check_mpi(call(requests.data()), to_string(operation.op));
    return Work(std::make_unique<MpiWork>(group_, operation, std::move(requests), std::move(used),
                                          std::move(finish)));
  }

  std::shared_ptr<MpiGroup> group_;
};

Work MpiCommunicator::all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) {
  const Operation operation = all_reduce_operation(tensor, op, options);
  void* const data = data_of(tensor);
  const auto dtype = operation.dtype, wide = accumulation_dtype(dtype);
  const Tensor sum = dtype == wide ? tensor : tensor.to(wide);
  const auto finish = [=, count = operation.count] {
    if (dtype != wide) narrow(dtype, data, sum.const_data_ptr(), count);
  };
  return start(
      operation, {tensor, sum},
      [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, sum.data_ptr(), as_int(operation.count), mpi_type(wide),
                              group_->library().reduction(op), group_->data(), request);
      },
      finish);
}

Work MpiCommunicator::reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                                     const CollectiveOptions& options) {
  const Operation operation = reduce_scatter_operation(output, input, size(), op, options);
  void* const out = data_of(output);
  (void)data_of(input);
  const auto dtype = operation.dtype, wide = accumulation_dtype(dtype);
  const Tensor addends = dtype == wide ? input : input.to(wide);
  // Apart from the output, which may lie inside the input: MPI allows no overlap.
  const Tensor sum = at::empty({operation.count}, addends.options());
  return start(
      operation, {output, addends, sum},
      [&](MPI_Request* request) {
        return MPI_Ireduce_scatter_block(addends.const_data_ptr(), sum.data_ptr(),
                                         as_int(operation.count), mpi_type(wide),
                                         group_->library().reduction(op), group_->data(), request);
      },
      [=, count = operation.count] { narrow(dtype, out, sum.const_data_ptr(), count); });
}

Work MpiCommunicator::all_gather(Tensor output, Tensor input, const CollectiveOptions& options) {
  const Operation operation = all_gather_operation(output, input, size(), options);
  auto* const out = static_cast<std::byte*>(data_of(output));
  const void* const in = data_of(input);
  const bool in_place = in == out + static_cast<std::size_t>(rank()) * input.nbytes();
  return start(operation, {output, input}, [&](MPI_Request* request) {
    const int count = as_int(operation.count);
    const MPI_Datatype type = mpi_type(operation.dtype);
    return MPI_Iallgather(in_place ? MPI_IN_PLACE : in, count, type, out, count, type,
                          group_->data(), request);
  });
}

Work MpiCommunicator::all_to_all(Tensor output, Tensor input,
                                 const std::vector<std::int64_t>& receive_rows,
                                 const std::vector<std::int64_t>& send_rows,
                                 const CollectiveOptions& options) {
  const Operation operation =
      all_to_all_operation(output, input, receive_rows, send_rows, size(), options);
  struct Counts {
    std::vector<int> counts, offsets;
  };
  const auto counts_of = [&](const std::vector<std::int64_t>& rows) {
    Counts result;
    std::int64_t offset = 0;
    for (const std::int64_t r : rows) {
      result.counts.push_back(as_int(r * operation.count));
      result.offsets.push_back(as_int(offset));
      offset += r * operation.count;
    }
    return result;
  };
  // MPI reads the counts until the request is complete.
  const auto sends = std::make_shared<Counts>(counts_of(send_rows));
  const auto receives = std::make_shared<Counts>(counts_of(receive_rows));
  const MPI_Datatype type = mpi_type(operation.dtype);
  return start(
      operation, {output, input},
      [&](MPI_Request* request) {
        return MPI_Ialltoallv(data_of(input), sends->counts.data(), sends->offsets.data(), type,
                              data_of(output), receives->counts.data(), receives->offsets.data(),
                              type, group_->data(), request);
      },
      [sends, receives] {});
}

Work MpiCommunicator::broadcast(Tensor tensor, int root, const CollectiveOptions& options) {
  const Operation operation = broadcast_operation(tensor, root, size(), options);
  return start(operation, {tensor}, [&](MPI_Request* request) {
    return MPI_Ibcast(data_of(tensor), as_int(operation.count), mpi_type(operation.dtype), root,
                      group_->data(), request);
  });
}

Work MpiCommunicator::send(Tensor tensor, int to, const CollectiveOptions& options) {
  const Operation operation = send_operation(tensor, to, size(), options);
  return start(operation, {tensor}, [&](MPI_Request* request) {
    return MPI_Isend(data_of(tensor), as_int(operation.count), mpi_type(operation.dtype), to, 0,
                     group_->data(), request);
  });
}

Work MpiCommunicator::recv(Tensor tensor, int from, const CollectiveOptions& options) {
  const Operation operation = recv_operation(tensor, from, size(), options);
  return start(operation, {tensor}, [&](MPI_Request* request) {
    return MPI_Irecv(data_of(tensor), as_int(operation.count), mpi_type(operation.dtype), from, 0,
                     group_->data(), request);
  });
}

void MpiCommunicator::barrier(const CollectiveOptions& options) {
  start(barrier_operation(options), {}, [&](MPI_Request* request) {
    return MPI_Ibarrier(group_->data(), request);
  }).wait();
}

// MPI_Comm_split blocks: the barrier before it has the deadline.
std::unique_ptr<Communicator> MpiCommunicator::split(int color, const std::string& name) {
  start(split_operation(name), {}, [&](MPI_Request* request) {
    return MPI_Ibarrier(group_->data(), request);
  }).wait();
  MPI_Comm made = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(group_->data(), color < 0 ? MPI_UNDEFINED : color, rank(), &made),
            "MPI_Comm_split");
  const Tensor mine = at::tensor({std::int64_t{color}}, at::kLong);
  const Tensor colors = at::empty({size()}, at::kLong);
  all_gather(colors, mine, {.label = "split " + name}).wait();
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < size(); ++r) {
    if (colors.const_data_ptr<std::int64_t>()[r] == color) {
      members.push_back(world_ranks()[static_cast<std::size_t>(r)]);
    }
  }
  return std::make_unique<MpiCommunicator>(std::make_shared<MpiGroup>(
      group_->shared_library(), made, name, std::move(members), group_->timeouts()));
}

std::unique_ptr<Communicator> duplicate_world(const std::shared_ptr<MpiLibrary>& library,
                                              const std::string& name, const World& world,
                                              const Timeouts& timeouts) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate), "MPI_Comm_dup");
  std::vector<int> members(static_cast<std::size_t>(world.size));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<MpiCommunicator>(
      std::make_shared<MpiGroup>(library, duplicate, name, std::move(members), timeouts));
}

}  // namespace

bool has_mpi() {
  return true;
}

Connection connect_mpi(const World& world, const Timeouts& timeouts) {
  const auto library = std::make_shared<MpiLibrary>();
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != world.rank || size != world.size) {
    throw CommError(fmt::format("MPI says rank {} of {}, the environment rank {} of {}", rank, size,
                                world.rank, world.size));
  }
  return {.device = duplicate_world(library, "world", world, timeouts),
          .host = duplicate_world(library, "host", world, timeouts)};
}

}  // namespace coeus::comm
