#include "comm/sockets/sockets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "comm/reduce.h"
#include "comm/sockets/ring.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

std::byte* bytes_at(const Tensor& tensor) {
  COEUS_ASSERT(tensor.is_cpu(), "sockets carry CPU tensors only");
  return static_cast<std::byte*>(tensor.data_ptr());
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

template <class Message>
class PairwiseWork : public Work::State {
 public:
  PairwiseWork(Channel& channel, const Operation& operation, std::shared_ptr<Message> state)
      : world_(channel.shared_world()),
        channel_(channel.id()),
        activity_(channel.pairwise(operation)),
        state_(std::move(state)) {}
  void wait() override { world_->wait(state_->done, channel_, activity_); }

 private:
  std::shared_ptr<SocketWorld> world_;
  std::uint32_t channel_;
  Activity activity_;
  std::shared_ptr<Message> state_;
};

// Collectives are done when they return; sends and receives when their Work was waited for.
class SocketCommunicator : public Communicator {
 public:
  SocketCommunicator(std::shared_ptr<SocketWorld> world, std::uint32_t channel,
                     const std::string& name, std::vector<int> members)
      : channel_(std::move(world), channel, name, std::move(members)) {}

  int rank() const override { return channel_.rank(); }
  int size() const override { return channel_.size(); }
  const std::string& name() const override { return channel_.name(); }
  const std::vector<int>& world_ranks() const override { return channel_.members(); }

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
  void abort(const std::string& reason) noexcept override { channel_.world().abort(reason); }
  void rearm() override {
    throw CommError(fmt::format("group {}: sockets cannot be rearmed after an abort", name()));
  }

 private:
  int world_rank(int rank) const { return world_ranks()[static_cast<std::size_t>(rank)]; }
  Slices equal_parts(std::int64_t count) const;

  Channel channel_;
};

Slices SocketCommunicator::equal_parts(std::int64_t count) const {
  Slices slices;
  for (int r = 0; r < size(); ++r) slices.push_back({r * count, count});
  return slices;
}

Work SocketCommunicator::all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) {
  const Operation operation = all_reduce_operation(tensor, op, options);
  std::byte* const data = bytes_at(tensor);
  channel_.begin(operation);
  if (size() == 1) return {};
  const Slices slices = cut_evenly(operation.count, size());
  const std::size_t width = c10::elementSize(operation.dtype);
  ring_reduce(channel_, data, slices, tensor, [&](const Range& piece, const std::byte* sum) {
    narrow(operation.dtype, data + static_cast<std::size_t>(piece.begin) * width, sum, piece.count);
  });
  ring_gather(channel_, data, slices, tensor);
  return {};
}

Work SocketCommunicator::reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                                        const CollectiveOptions& options) {
  const Operation operation = reduce_scatter_operation(output, input, size(), op, options);
  std::byte* const out = bytes_at(output);
  const std::byte* const in = bytes_at(input);
  channel_.begin(operation);
  if (size() == 1) {
    copy_bytes(out, in, output.nbytes());
    return {};
  }
  const std::size_t width = c10::elementSize(operation.dtype);
  const std::int64_t own = rank() * operation.count;
  ring_reduce(channel_, in, equal_parts(operation.count), input,
              [&](const Range& piece, const std::byte* sum) {
                narrow(operation.dtype, out + static_cast<std::size_t>(piece.begin - own) * width,
                       sum, piece.count);
              });
  return {};
}

Work SocketCommunicator::all_gather(Tensor output, Tensor input, const CollectiveOptions& options) {
  const Operation operation = all_gather_operation(output, input, size(), options);
  std::byte* const out = bytes_at(output);
  channel_.begin(operation);
  copy_bytes(out + static_cast<std::size_t>(rank()) * input.nbytes(), bytes_at(input),
             input.nbytes());
  if (size() > 1) ring_gather(channel_, out, equal_parts(operation.count), output);
  return {};
}

Work SocketCommunicator::broadcast(Tensor tensor, int root, const CollectiveOptions& options) {
  const Operation operation = broadcast_operation(tensor, root, size(), options);
  std::byte* const data = bytes_at(tensor);
  channel_.begin(operation);
  if (size() > 1) ring_broadcast(channel_, data, operation.count, root, tensor);
  return {};
}

Work SocketCommunicator::all_to_all(Tensor output, Tensor input,
                                    const std::vector<std::int64_t>& receive_rows,
                                    const std::vector<std::int64_t>& send_rows,
                                    const CollectiveOptions& options) {
  const Operation operation =
      all_to_all_operation(output, input, receive_rows, send_rows, size(), options);
  const std::size_t row =
      static_cast<std::size_t>(operation.count) * c10::elementSize(operation.dtype);
  const auto offsets = [&](const std::vector<std::int64_t>& rows) {
    std::vector<std::size_t> bytes(1);
    for (const std::int64_t r : rows)
      bytes.push_back(bytes.back() + static_cast<std::size_t>(r) * row);
    return bytes;
  };
  const auto from = offsets(receive_rows), to = offsets(send_rows);
  const auto length = [](const std::vector<std::size_t>& o, int r) {
    return o[static_cast<std::size_t>(r) + 1] - o[static_cast<std::size_t>(r)];
  };
  std::byte* const out = bytes_at(output);
  const std::byte* const in = bytes_at(input);
  channel_.begin(operation);
  std::vector<std::shared_ptr<ReceiveState>> received(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const auto i = static_cast<std::size_t>(r);
    received[i] = channel_.receive(r, out + from[i], length(from, r), output);
  }
  std::vector<std::pair<std::shared_ptr<SendState>, int>> sent;
  for (int distance = 1; distance < size(); ++distance) {
    const int r = (rank() + distance) % size();
    const auto i = static_cast<std::size_t>(r);
    sent.emplace_back(channel_.send(r, in + to[i], length(to, r), input), r);
  }
  const auto own = static_cast<std::size_t>(rank());
  COEUS_ASSERT(length(from, rank()) == length(to, rank()), "all_to_all: own rows differ");
  copy_bytes(out + from[own], in + to[own], length(to, rank()));
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) channel_.wait(*received[static_cast<std::size_t>(r)], r);
  }
  for (const auto& [state, r] : sent) channel_.wait(*state, r);
  return {};
}

Work SocketCommunicator::send(Tensor tensor, int to, const CollectiveOptions& options) {
  const Operation operation = send_operation(tensor, to, size(), options);
  auto state = channel_.world().send(world_rank(to), channel_.id(), operation, bytes_at(tensor),
                                     tensor.nbytes(), tensor);
  if (state->done) return {};
  return Work(std::make_unique<PairwiseWork<SendState>>(channel_, operation, std::move(state)));
}

Work SocketCommunicator::recv(Tensor tensor, int from, const CollectiveOptions& options) {
  const Operation operation = recv_operation(tensor, from, size(), options);
  auto state = channel_.world().receive(world_rank(from), channel_.id(), operation,
                                        bytes_at(tensor), tensor.nbytes(), tensor);
  return Work(std::make_unique<PairwiseWork<ReceiveState>>(channel_, operation, std::move(state)));
}

void SocketCommunicator::barrier(const CollectiveOptions& options) {
  channel_.begin(barrier_operation(options));
  dissemination_barrier(channel_);
}

// The new group gets a channel that no two of its members share already.
std::unique_ptr<Communicator> SocketCommunicator::split(int color, const std::string& name) {
  SocketWorld& world = channel_.world();
  const Tensor mine =
      at::tensor({std::int64_t{color}, std::int64_t{world.next_channel()}}, at::kLong);
  const Tensor all = at::empty({size(), 2}, at::kLong);
  all_gather(all, mine, {.label = "split " + name}).wait();
  std::vector<int> members;
  std::int64_t channel = 0;
  for (int r = 0; r < size(); ++r) {
    const std::int64_t* entry = all.const_data_ptr<std::int64_t>() + 2 * r;
    channel = std::max(channel, entry[1]);
    if (entry[0] == color) members.push_back(world_rank(r));
  }
  world.use_channel(static_cast<std::uint32_t>(channel));
  if (color < 0) return nullptr;
  return std::make_unique<SocketCommunicator>(
      channel_.shared_world(), static_cast<std::uint32_t>(channel), name, std::move(members));
}

}  // namespace

std::unique_ptr<Communicator> make_sockets(std::shared_ptr<SocketWorld> world,
                                           const std::string& name) {
  std::vector<int> members(static_cast<std::size_t>(world->size()));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<SocketCommunicator>(std::move(world), 0, name, std::move(members));
}

}  // namespace coeus::comm
