#include "tests/parallel/counting.h"

#include "core/torch.h"
#include "layout/placement.h"

namespace coeus::testing {
namespace {

using comm::CollectiveOptions;
using comm::ReduceOp;
using comm::Work;

class Counting : public comm::Communicator {
 public:
  Counting(comm::Communicator& inner, Count& count) : inner_(inner), count_(count) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& name() const override { return inner_.name(); }
  const std::vector<int>& world_ranks() const override { return inner_.world_ranks(); }

  Work all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) override {
    const auto mine = shard_range(tensor.numel(), size(), rank()).size;
    add(mine * (size() - 1) + tensor.numel() - mine);
    return inner_.all_reduce(tensor, op, options);
  }
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options) override {
    add(output.numel() - input.numel());
    return inner_.all_gather(output, input, options);
  }
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                      const CollectiveOptions& options) override {
    add(output.numel() * (size() - 1));
    return inner_.reduce_scatter(output, input, op, options);
  }
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows,
                  const CollectiveOptions& options) override {
    const std::int64_t own = receive_rows[static_cast<std::size_t>(rank())];
    add(output.numel() - output.narrow(0, 0, own).numel());
    return inner_.all_to_all(output, input, receive_rows, send_rows, options);
  }
  Work broadcast(Tensor tensor, int root, const CollectiveOptions& options) override {
    add(root == rank() ? 0 : tensor.numel());
    return inner_.broadcast(tensor, root, options);
  }
  Work send(Tensor tensor, int to, const CollectiveOptions& options) override {
    add(0);
    return inner_.send(tensor, to, options);
  }
  Work recv(Tensor tensor, int from, const CollectiveOptions& options) override {
    add(tensor.numel());
    return inner_.recv(tensor, from, options);
  }
  void barrier(const CollectiveOptions& options) override {
    add(0);
    inner_.barrier(options);
  }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    add(0);
    return inner_.split(color, name);
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void rearm() override { inner_.rearm(); }

 private:
  void add(std::int64_t elements) {
    ++count_.calls;
    count_.elements += elements;
  }

  comm::Communicator& inner_;
  Count& count_;
};

}  // namespace

std::unique_ptr<comm::Communicator> make_counting(comm::Communicator& inner, Count& count) {
  return std::make_unique<Counting>(inner, count);
}

}  // namespace coeus::testing
