#include "comm/nccl/nccl.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/nccl/handles.h"
#include "comm/operation.h"
#include "core/cuda.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kDouble:
      return ncclFloat64;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    case at::kFloat8_e4m3fn:
      return ncclFloat8e4m3;
    case at::kFloat8_e5m2:
      return ncclFloat8e5m2;
    default:
      COEUS_ASSERT(false, "NCCL does not carry {}", c10::toString(dtype));
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin;
}

// Recorded once the operations of one launch are enqueued; goes back to the pool with the last
// Work.
class Done {
 public:
  explicit Done(std::shared_ptr<EventPool> pool) : pool_(std::move(pool)), event_(pool_->take()) {}
  ~Done() { pool_->give_back(std::move(event_)); }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  void record(cudaStream_t stream) {
    check(cudaEventRecord(event_.get(), stream));
    recorded_ = true;
  }
  void make_wait(cudaStream_t stream) const {
    COEUS_ASSERT(recorded_, "wait() on an operation of a group that has not ended");
    check(cudaStreamWaitEvent(stream, event_.get(), 0));
  }

 private:
  std::shared_ptr<EventPool> pool_;
  CudaEvent event_;
  bool recorded_ = false;
};

class NcclWork : public Work::State {
 public:
  NcclWork(std::shared_ptr<Done> done, std::vector<Tensor> used)
      : done_(std::move(done)), used_(std::move(used)) {}
  void wait() override {
    done_->make_wait(static_cast<cudaStream_t>(core::native_stream(used_.front())));
  }

 private:
  std::shared_ptr<Done> done_;
  std::vector<Tensor> used_;
};

class NcclCommunicator : public Communicator {
 public:
  // Owns `host` where it was split off for this group.
  NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> owned_host, std::string name,
                   int cuda_device, const Timeouts& timeouts);
  ~NcclCommunicator() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  const std::string& name() const override { return name_; }
  const std::vector<int>& world_ranks() const override { return host_.world_ranks(); }

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
  void synchronize(const CollectiveOptions& options) override;
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  void group_begin() override;
  void group_end() override;
  void abort(const std::string& reason) noexcept override;
  void rearm() override;

 private:
  using Call = std::function<void()>;
  Work launch(const Operation& operation, std::vector<Tensor> used, const Call& call);
  void follow_current_stream();
  void start();
  void check_usable() const;
  void drain(cudaEvent_t event, const std::string& what);
  std::string here() const;
  int world_rank() const { return world_ranks()[static_cast<std::size_t>(rank())]; }

  Communicator& host_;
  std::unique_ptr<Communicator> owned_host_;
  std::string name_;
  at::Device device_;
  Tensor anchor_;  // of no elements; stands for the device
  Timeouts timeouts_;
  Stream stream_;
  CudaEvent before_;  // what the current stream did before an operation
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  int group_depth_ = 0;
  std::shared_ptr<Done> group_done_;
  std::string last_;  // operation issued, for errors

  mutable std::mutex mutex_;  // below: abort may come from another thread
  ncclComm_t communicator_ = nullptr;
  std::optional<std::string> failure_;
  std::shared_future<void> ending_;
};

NcclCommunicator::NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> owned_host,
                                   std::string name, int cuda_device, const Timeouts& timeouts)
    : host_(host),
      owned_host_(std::move(owned_host)),
      name_(std::move(name)),
      device_(at::kCUDA, static_cast<at::DeviceIndex>(cuda_device)),
      timeouts_(timeouts) {
  core::use_device(device_);
  anchor_ = at::empty({0}, at::TensorOptions().device(device_));
  stream_ = make_stream();
  before_ = make_event();
  start();
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_) {
    const bool unwinding = std::uncaught_exceptions() > 0;
    ending_ = end_communicator(communicator_, device_.index(),
                               unwinding ? Ending::abort : Ending::destroy);
  }
  if (ending_.valid() && ending_.wait_for(20s) != std::future_status::ready) {
    (void)stream_.release();  // still used by a kernel that will not end
  }
}

// The id goes over the host's communicator, whose deadline names the ranks that are missing.
void NcclCommunicator::start() {
  ncclUniqueId id{};
  if (rank() == 0) check(ncclGetUniqueId(&id));
  const std::string bytes(id.internal, sizeof(id.internal));
  const std::string agreed = broadcast_bytes(host_, bytes, 0);
  std::memcpy(id.internal, agreed.data(), sizeof(id.internal));
  core::use_device(device_);
  ncclComm_t made = nullptr;
  check(ncclCommInitRank(&made, size(), id, rank()));
  std::lock_guard lock(mutex_);
  communicator_ = made;
  failure_.reset();
}

std::string NcclCommunicator::here() const {
  return fmt::format("rank {}, group {}", world_rank(), name_);
}

void NcclCommunicator::check_usable() const {
  std::lock_guard lock(mutex_);
  if (failure_) throw CommError(*failure_);
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(communicator_, &state));
  if (state != ncclSuccess && state != ncclInProgress) {
    throw CommError(
        fmt::format("{}: NCCL: {} (after {})", here(), ncclGetErrorString(state), last_));
  }
}

void NcclCommunicator::follow_current_stream() {
  const auto current = static_cast<cudaStream_t>(core::native_stream(anchor_));
  check(cudaEventRecord(before_.get(), current));
  check(cudaStreamWaitEvent(stream_.get(), before_.get(), 0));
}

Work NcclCommunicator::launch(const Operation& operation, std::vector<Tensor> used,
                              const Call& call) {
  check_usable();
  for (const Tensor& tensor : used) {
    COEUS_ASSERT(tensor.device() == device_, "{}: a tensor on {}", here(), tensor.device().str());
  }
  last_ = describe(operation);
  follow_current_stream();
  auto done = group_depth_ > 0 ? group_done_ : std::make_shared<Done>(events_);
  call();
  if (group_depth_ == 0) done->record(stream_.get());
  return Work(std::make_unique<NcclWork>(std::move(done), std::move(used)));
}

void NcclCommunicator::group_begin() {
  if (group_depth_++ > 0) return;
  group_done_ = std::make_shared<Done>(events_);
  check(ncclGroupStart());
}

void NcclCommunicator::group_end() {
  COEUS_ASSERT(group_depth_ > 0, "group_end without group_begin");
  if (--group_depth_ > 0) return;
  check(ncclGroupEnd());
  group_done_->record(stream_.get());
  group_done_.reset();
}

Work NcclCommunicator::all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) {
  const Operation o = all_reduce_operation(tensor, op, options);
  return launch(o, {tensor}, [&] {
    check(ncclAllReduce(tensor.const_data_ptr(), tensor.data_ptr(), tensor.numel(),
                        nccl_type(o.dtype), nccl_op(op), communicator_, stream_.get()));
  });
}

Work NcclCommunicator::all_gather(Tensor output, Tensor input, const CollectiveOptions& options) {
  const Operation o = all_gather_operation(output, input, size(), options);
  return launch(o, {output, input}, [&] {
    check(ncclAllGather(input.const_data_ptr(), output.data_ptr(), input.numel(),
                        nccl_type(o.dtype), communicator_, stream_.get()));
  });
}

Work NcclCommunicator::reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                                      const CollectiveOptions& options) {
  const Operation o = reduce_scatter_operation(output, input, size(), op, options);
  return launch(o, {output, input}, [&] {
    check(ncclReduceScatter(input.const_data_ptr(), output.data_ptr(), output.numel(),
                            nccl_type(o.dtype), nccl_op(op), communicator_, stream_.get()));
  });
}

Work NcclCommunicator::all_to_all(Tensor output, Tensor input,
                                  const std::vector<std::int64_t>& receive_rows,
                                  const std::vector<std::int64_t>& send_rows,
                                  const CollectiveOptions& options) {
  const Operation o = all_to_all_operation(output, input, receive_rows, send_rows, size(), options);
  const auto width = static_cast<std::int64_t>(c10::elementSize(o.dtype));
  return launch(o, {output, input}, [&] {
    const auto* from = static_cast<const std::byte*>(input.const_data_ptr());
    auto* to = static_cast<std::byte*>(output.data_ptr());
    check(ncclGroupStart());
    for (int r = 0; r < size(); ++r) {
      const std::int64_t sent = send_rows[static_cast<std::size_t>(r)] * o.count;
      const std::int64_t received = receive_rows[static_cast<std::size_t>(r)] * o.count;
      if (sent > 0) {
        check(ncclSend(from, sent, nccl_type(o.dtype), r, communicator_, stream_.get()));
      }
      if (received > 0) {
        check(ncclRecv(to, received, nccl_type(o.dtype), r, communicator_, stream_.get()));
      }
      from += sent * width;
      to += received * width;
    }
    check(ncclGroupEnd());
  });
}

Work NcclCommunicator::broadcast(Tensor tensor, int root, const CollectiveOptions& options) {
  const Operation o = broadcast_operation(tensor, root, size(), options);
  return launch(o, {tensor}, [&] {
    check(ncclBroadcast(tensor.const_data_ptr(), tensor.data_ptr(), tensor.numel(),
                        nccl_type(o.dtype), root, communicator_, stream_.get()));
  });
}

Work NcclCommunicator::send(Tensor tensor, int to, const CollectiveOptions& options) {
  const Operation o = send_operation(tensor, to, size(), options);
  return launch(o, {tensor}, [&] {
    check(ncclSend(tensor.const_data_ptr(), tensor.numel(), nccl_type(o.dtype), to, communicator_,
                   stream_.get()));
  });
}

Work NcclCommunicator::recv(Tensor tensor, int from, const CollectiveOptions& options) {
  const Operation o = recv_operation(tensor, from, size(), options);
  return launch(o, {tensor}, [&] {
    check(ncclRecv(tensor.data_ptr(), tensor.numel(), nccl_type(o.dtype), from, communicator_,
                   stream_.get()));
  });
}

// Polls: a blocking wait would neither see an asynchronous error nor a deadline.
void NcclCommunicator::drain(cudaEvent_t event, const std::string& what) {
  const auto until = Clock::now() + timeouts_.operation;
  auto pause = 10us;
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check(state);
    check_usable();
    if (Clock::now() > until) {
      std::vector<int> others;
      for (const int r : world_ranks()) {
        if (r != world_rank()) others.push_back(r);
      }
      const double seconds = std::chrono::duration<double>(timeouts_.operation).count();
      const std::string reason =
          fmt::format("{}: {}: the device still waits for {} after {}; last issued: {}", here(),
                      what, name_ranks(others), format_seconds(seconds), last_);
      abort(reason);
      throw CommError(reason);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(500));
  }
}

void NcclCommunicator::synchronize(const CollectiveOptions& options) {
  check_usable();
  const auto current = static_cast<cudaStream_t>(core::native_stream(anchor_));
  CudaEvent reached = events_->take();
  check(cudaEventRecord(reached.get(), current));
  drain(reached.get(), fmt::format("synchronize \"{}\"", options.label));
  events_->give_back(std::move(reached));
}

void NcclCommunicator::barrier(const CollectiveOptions& options) {
  check_usable();
  follow_current_stream();
  CudaEvent reached = events_->take();
  check(cudaEventRecord(reached.get(), stream_.get()));
  drain(reached.get(), describe(barrier_operation(options)));
  events_->give_back(std::move(reached));
  host_.barrier(options);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, const std::string& name) {
  check_usable();
  auto host = host_.split(color, name + ".host");
  if (!host) return nullptr;
  Communicator& reference = *host;
  return std::make_unique<NcclCommunicator>(reference, std::move(host), name, device_.index(),
                                            timeouts_);
}

void NcclCommunicator::abort(const std::string& reason) noexcept {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = reason;
  if (!communicator_) return;
  ending_ = end_communicator(std::exchange(communicator_, nullptr), device_.index(), Ending::abort);
}

void NcclCommunicator::rearm() {
  {
    std::lock_guard lock(mutex_);
    COEUS_ASSERT(failure_, "{}: rearm without abort", here());
  }
  if (ending_.valid() && ending_.wait_for(timeouts_.operation) != std::future_status::ready) {
    throw CommError(fmt::format("{}: rearm: the aborted communicator does not end", here()));
  }
  ending_ = {};
  group_depth_ = 0;
  group_done_.reset();
  stream_ = make_stream();
  start();
}

}  // namespace

bool has_nccl() {
  return true;
}

void check_nccl_is_built() {}

std::unique_ptr<Communicator> make_nccl(Communicator& host, const std::string& name,
                                        int cuda_device, const Timeouts& timeouts) {
  return std::make_unique<NcclCommunicator>(host, nullptr, name, cuda_device, timeouts);
}

}  // namespace coeus::comm
