#include "comm/solo.h"

#include <fmt/format.h>

#include <deque>
#include <optional>

#include "base/error.h"
#include "comm/operation.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

void copy_unless_same(const Tensor& output, const Tensor& input) {
  if (output.numel() == 0 || output.const_data_ptr() == input.const_data_ptr()) return;
  at::NoGradGuard no_grad;
  output.view({-1}).copy_(input.reshape({-1}));
}

class Solo : public Communicator {
 public:
  Solo(const std::string& name, int world_rank) : name_(name), world_ranks_{world_rank} {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  const std::vector<int>& world_ranks() const override { return world_ranks_; }

  Work all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) override {
    check(all_reduce_operation(tensor, op, options));
    return {};
  }
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options) override {
    check(all_gather_operation(output, input, 1, options));
    copy_unless_same(output, input);
    return {};
  }
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                      const CollectiveOptions& options) override {
    check(reduce_scatter_operation(output, input, 1, op, options));
    copy_unless_same(output, input);
    return {};
  }
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows,
                  const CollectiveOptions& options) override {
    check(all_to_all_operation(output, input, receive_rows, send_rows, 1, options));
    copy_unless_same(output, input);
    return {};
  }
  Work broadcast(Tensor tensor, int root, const CollectiveOptions& options) override {
    check(broadcast_operation(tensor, root, 1, options));
    return {};
  }
  Work send(Tensor tensor, int to, const CollectiveOptions& options) override {
    check(send_operation(tensor, to, 1, options));
    sent_.push_back(tensor.clone());
    return {};
  }
  Work recv(Tensor tensor, int from, const CollectiveOptions& options) override {
    const Operation operation = recv_operation(tensor, from, 1, options);
    check(operation);
    if (sent_.empty() || sent_.front().numel() != tensor.numel()) {
      throw CommError(fmt::format("rank {}, group {}: {}: nothing of this size was sent",
                                  world_ranks_[0], name_, describe(operation)));
    }
    copy_unless_same(tensor, sent_.front());
    sent_.pop_front();
    return {};
  }
  void barrier(const CollectiveOptions& options) override { check(barrier_operation(options)); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    check(split_operation(name));
    return color < 0 ? nullptr : make_solo(name, world_ranks_[0]);
  }
  void abort(const std::string& reason) noexcept override { failure_ = reason; }
  void rearm() override {
    failure_.reset();
    sent_.clear();
  }

 private:
  void check(const Operation&) const {
    if (failure_) throw CommError(*failure_);
  }

  std::string name_;
  std::vector<int> world_ranks_;
  std::deque<Tensor> sent_;
  std::optional<std::string> failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo(const std::string& name, int world_rank) {
  return std::make_unique<Solo>(name, world_rank);
}

}  // namespace coeus::comm
