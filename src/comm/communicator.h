#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace coeus::comm {

enum class ReduceOp { sum, max, min };

struct CollectiveOptions {
  std::string_view label =
      {};  // fqn of the unit or layer concerned: named in errors, deadlines and records
};

// A started operation. Whoever starts it waits for it, or keeps it in a member named pending_….
class [[nodiscard]] Work {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() = 0;  // throws CommError (or the failure of the rank that failed first)
  };
  Work() = default;  // already complete
  explicit Work(std::unique_ptr<State> state) : state_(std::move(state)) {}
  // CPU tensors: blocks until done. CUDA tensors: orders the current stream after the operation.
  // Idempotent.
  void wait() {
    if (state_) {
      auto state = std::move(state_);
      state->wait();
    }
  }

 private:
  std::unique_ptr<State> state_;
};

// A group of ranks that exchange tensors. All calls are collective: same order on every rank of the
// group. Tensors are contiguous; buffers must live, unread and unwritten, until the Work was waited
// for.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // within the group
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;              // the axis: "world", "fsdp", …
  virtual const std::vector<int>& world_ranks() const = 0;  // world rank of each member

  virtual Work all_reduce(Tensor tensor, ReduceOp op,
                          const CollectiveOptions& options = {}) = 0;  // in place
  // output = the inputs one after another; `input` may be output's own part (in place).
  virtual Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options = {}) = 0;
  // output = this rank's part of the reduced input; `output` may be input's own part (in place).
  virtual Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                              const CollectiveOptions& options = {}) = 0;
  // Rows of dim 0: send_rows[i] rows go to rank i, receive_rows[i] come from it.
  virtual Work all_to_all(Tensor output, Tensor input,
                          const std::vector<std::int64_t>& receive_rows,
                          const std::vector<std::int64_t>& send_rows,
                          const CollectiveOptions& options = {}) = 0;
  virtual Work broadcast(Tensor tensor, int root, const CollectiveOptions& options = {}) = 0;
  virtual Work send(Tensor tensor, int to, const CollectiveOptions& options = {}) = 0;
  virtual Work recv(Tensor tensor, int from, const CollectiveOptions& options = {}) = 0;
  virtual void barrier(const CollectiveOptions& options = {}) = 0;

  // Collective over the group: ranks that pass the same color form a new group, ordered by their
  // rank here. color < 0: no group, nullptr.
  virtual std::unique_ptr<Communicator> split(int color, const std::string& name) = 0;

  // The same where the caller knows the world ranks of its own group already (a backend that plays
  // one rank alone needs them).
  virtual std::unique_ptr<Communicator> open_group(const std::vector<int>& members, int color,
                                                   const std::string& name) {
    return split(color, name);
  }

  // Before the host reads a result: blocks until the current stream has done what was enqueued, and
  // throws CommError at the deadline or when a peer was lost. CPU tensors: nothing to do.
  virtual void synchronize(const CollectiveOptions& options = {}) {}

  // Several operations launched as one (NCCL's group); elsewhere nothing.
  virtual void group_begin() {}
  virtual void group_end() {}

  // Every waiting and later operation of the group fails with `reason` on all ranks; never blocks.
  virtual void abort(const std::string& reason) noexcept = 0;
  // After abort, called by all ranks once each has left its operations: usable again (threads and
  // NCCL); others throw.
  virtual void rearm() = 0;
};

}  // namespace coeus::comm
