#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/sockets/socket_world.h"

namespace coeus::comm {

// One group's view of the connections: ranks are those of the group, messages do not mix with other
// groups'.
class Channel {
 public:
  Channel(std::shared_ptr<SocketWorld> world, std::uint32_t id, std::string name,
          std::vector<int> members);
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int left() const { return (rank_ + size() - 1) % size(); }
  int right() const { return (rank_ + 1) % size(); }
  const std::string& name() const { return name_; }
  const std::vector<int>& members() const { return members_; }
  SocketWorld& world() { return *world_; }
  const std::shared_ptr<SocketWorld>& shared_world() const { return world_; }

  // Until the next call messages belong to this collective.
  void begin(const Operation& operation);
  const Operation& operation() const { return activity_.operation; }
  std::shared_ptr<SendState> send(int to, const std::byte* data, std::size_t bytes,
                                  const Tensor& keep);
  std::shared_ptr<SendState> send_owned(int to, std::unique_ptr<std::byte[]> data,
                                        std::size_t bytes);
  std::shared_ptr<ReceiveState> receive(int from, std::byte* out, std::size_t bytes,
                                        const Tensor& keep);
  void wait(const ReceiveState& state, int from);
  void wait(const SendState& state, int to);

  // Pairwise messages may outlive the collectives around them.
  Activity pairwise(const Operation& operation) const;
  std::uint32_t id() const { return id_; }

 private:
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  void wait(const bool& done, int peer);

  std::shared_ptr<SocketWorld> world_;
  std::uint32_t id_;
  std::string name_;
  std::vector<int> members_;
  int rank_ = 0;
  Activity activity_;
};

// Sends in flight; waits for all of them.
class PendingSends {
 public:
  PendingSends(Channel& channel, int to) : channel_(channel), to_(to) {}
  void add(std::shared_ptr<SendState> state);
  void wait();

 private:
  Channel& channel_;
  int to_;
  std::deque<std::shared_ptr<SendState>> states_;
};

}  // namespace coeus::comm
