#include "comm/fake/fake.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

class Fake : public Communicator {
 public:
  Fake(std::string name, std::vector<int> members, int rank)
      : name_(std::move(name)), members_(std::move(members)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& name() const override { return name_; }
  const std::vector<int>& world_ranks() const override { return members_; }

  Work all_reduce(Tensor, ReduceOp, const CollectiveOptions&) override { return done(); }
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions&) override {
    const at::NoGradGuard no_grad;
    const Tensor mine = input.reshape({-1}).clone();  // in place: the input is a part of the output
    const Tensor all = output.view({-1}).zero_();
    all.narrow(0, rank_ * mine.numel(), mine.numel()).copy_(mine);
    return done();
  }
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp, const CollectiveOptions&) override {
    const at::NoGradGuard no_grad;
    const Tensor own = input.view({-1}).narrow(0, rank_ * output.numel(), output.numel());
    output.view({-1}).copy_(own);
    return done();
  }
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows, const CollectiveOptions&) override {
    const at::NoGradGuard no_grad;
    const auto before = [&](const std::vector<std::int64_t>& rows) {
      return std::accumulate(rows.begin(), rows.begin() + rank_, std::int64_t{0});
    };
    const auto own = static_cast<std::size_t>(rank_);
    const std::int64_t rows = std::min(receive_rows[own], send_rows[own]);
    output.zero_();
    output.narrow(0, before(receive_rows), rows).copy_(input.narrow(0, before(send_rows), rows));
    return done();
  }
  Work broadcast(Tensor, int, const CollectiveOptions&) override { return done(); }
  Work send(Tensor, int, const CollectiveOptions&) override { return done(); }
  Work recv(Tensor tensor, int, const CollectiveOptions&) override {
    const at::NoGradGuard no_grad;
    tensor.zero_();
    return done();
  }
  void barrier(const CollectiveOptions&) override { done().wait(); }

  // The other ranks' colors are unknown here: all of them are taken to be in.
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    if (color < 0) return nullptr;
    return std::make_unique<Fake>(name, members_, rank_);
  }
  std::unique_ptr<Communicator> open_group(const std::vector<int>& members, int color,
                                           const std::string& name) override {
    if (color < 0) return nullptr;
    const int world_rank = members_[static_cast<std::size_t>(rank_)];
    const auto own = std::find(members.begin(), members.end(), world_rank);
    COEUS_ASSERT(own != members.end(), "rank {} is not in group {}", world_rank, name);
    return std::make_unique<Fake>(name, members, static_cast<int>(own - members.begin()));
  }
  void abort(const std::string& reason) noexcept override { failure_ = reason; }
  void rearm() override { failure_.reset(); }

 private:
  Work done() const {
    if (failure_) throw CommError(*failure_);
    return {};
  }

  std::string name_;
  std::vector<int> members_;
  int rank_;
  std::optional<std::string> failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_fake(int rank, int size, const std::string& name,
                                        std::shared_ptr<Recording> recording) {
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return make_recorder(std::make_unique<Fake>(name, std::move(members), rank),
                       std::move(recording));
}

}  // namespace coeus::comm
