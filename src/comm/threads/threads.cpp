#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/connect.h"
#include "comm/reduce.h"
#include "comm/threads/thread_group.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

class ExchangeWork : public Work::State {
 public:
  ExchangeWork(std::shared_ptr<ThreadGroup> group, std::shared_ptr<Exchange> exchange, int rank)
      : group_(std::move(group)), exchange_(std::move(exchange)), rank_(rank) {}
  void wait() override { group_->wait(*exchange_, rank_); }

 private:
  std::shared_ptr<ThreadGroup> group_;
  std::shared_ptr<Exchange> exchange_;
  int rank_;
};

class ReceiveWork : public Work::State {
 public:
  ReceiveWork(std::shared_ptr<ThreadGroup> group, int rank, const Operation& operation,
              const Tensor& tensor)
      : group_(std::move(group)),
        rank_(rank),
        operation_(operation),
        tensor_(tensor),
        out_(static_cast<std::byte*>(tensor.data_ptr())),
        ticket_(group_->begin_recv(rank, operation)) {}
  void wait() override { group_->finish_recv(rank_, ticket_, operation_, out_); }

 private:
  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  Operation operation_;
  Tensor tensor_;
  std::byte* out_;
  std::uint64_t ticket_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override {
    // While an exception unwinds, run_threads is about to report the cause itself.
    if (std::uncaught_exceptions() == 0) group_->leave(rank_);
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  const std::vector<int>& world_ranks() const override { return group_->world_ranks(); }

  Work all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) override {
    return start(all_reduce_operation(tensor, op, options), make_part(tensor, tensor));
  }
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options) override {
    return start(all_gather_operation(output, input, size(), options), make_part(output, input));
  }
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                      const CollectiveOptions& options) override {
    return start(reduce_scatter_operation(output, input, size(), op, options),
                 make_part(output, input));
  }
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows,
                  const CollectiveOptions& options) override {
    Part part = make_part(output, input);
    part.receive_rows = receive_rows;
    part.send_rows = send_rows;
    return start(all_to_all_operation(output, input, receive_rows, send_rows, size(), options),
                 std::move(part));
  }
  Work broadcast(Tensor tensor, int root, const CollectiveOptions& options) override {
    return start(broadcast_operation(tensor, root, size(), options), make_part(tensor, tensor));
  }
  Work send(Tensor tensor, int to, const CollectiveOptions& options) override {
    group_->send(rank_, send_operation(tensor, to, size(), options), tensor);
    return {};
  }
  Work recv(Tensor tensor, int from, const CollectiveOptions& options) override {
    return Work(std::make_unique<ReceiveWork>(
        group_, rank_, recv_operation(tensor, from, size(), options), tensor));
  }
  void barrier(const CollectiveOptions& options) override {
    start(barrier_operation(options), {}).wait();
  }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  void abort(const std::string& reason) noexcept override {
    group_->fail(reason, ThreadGroup::Failure::until_rearm);
  }
  void rearm() override { group_->rearm(rank_); }

 private:
  Work start(const Operation& operation, Part part) {
    COEUS_ASSERT((operation.op != Op::all_reduce && operation.op != Op::reduce_scatter) ||
                     can_reduce(operation.dtype),
                 "{} cannot be reduced", c10::toString(operation.dtype));
    return Work(std::make_unique<ExchangeWork>(
        group_, group_->arrive(rank_, operation, std::move(part)), rank_));
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
};

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, const std::string& name) {
  Part part;
  part.color = color;
  part.name = name;
  const auto exchange = group_->arrive(rank_, split_operation(name), std::move(part));
  group_->wait(*exchange, rank_);
  if (color < 0) return nullptr;
  const auto& group = exchange->made.at(color);
  int rank = 0;
  for (int r = 0; r < rank_; ++r)
    rank += exchange->parts[static_cast<std::size_t>(r)].color == color;
  return std::make_unique<ThreadCommunicator>(group, rank);
}

class FirstFailure {
 public:
  void record(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::string what_failed(int rank) {
  try {
    throw;
  } catch (const std::exception& e) {
    return fmt::format("rank {} failed: {}", rank, e.what());
  } catch (...) {
    return fmt::format("rank {} failed", rank);
  }
}

World thread_world(int rank, int size) {
  return {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .source = "threads"};
}

}  // namespace

void run_threads(int size, const Timeouts& timeouts, const RankBody& body) {
  COEUS_ASSERT(size > 0, "{} ranks", size);
  const auto world = std::make_shared<ThreadWorld>(timeouts);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto device = std::make_shared<ThreadGroup>(world, "world", ranks);
  const auto host = std::make_shared<ThreadGroup>(world, "host", ranks);
  world->add(device);
  world->add(host);

  FirstFailure first;
  const auto run_rank = [&](int rank) {
    try {
      body(thread_world(rank, size), {.device = std::make_unique<ThreadCommunicator>(device, rank),
                                      .host = std::make_unique<ThreadCommunicator>(host, rank)});
    } catch (...) {
      first.record(std::current_exception());
      world->end(what_failed(rank));
    }
  };
  {
    std::vector<std::jthread> threads;  // joined at the end of this block
    for (const int rank : ranks) threads.emplace_back(run_rank, rank);
  }
  first.rethrow();
}

}  // namespace coeus::comm
