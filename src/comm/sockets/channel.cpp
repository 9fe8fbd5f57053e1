#include "comm/sockets/channel.h"

#include <algorithm>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {

Channel::Channel(std::shared_ptr<SocketWorld> world, std::uint32_t id, std::string name,
                 std::vector<int> members)
    : world_(std::move(world)), id_(id), name_(std::move(name)), members_(std::move(members)) {
  const auto own = std::find(members_.begin(), members_.end(), world_->rank());
  COEUS_ASSERT(own != members_.end(), "rank {} is not in group {}", world_->rank(), name_);
  rank_ = static_cast<int>(own - members_.begin());
  activity_.group = name_;
  activity_.members = members_;
}

void Channel::begin(const Operation& operation) {
  world_->check_usable();
  activity_.operation = operation;
  ++activity_.sequence;
}

std::shared_ptr<SendState> Channel::send(int to, const std::byte* data, std::size_t bytes,
                                         const Tensor& keep) {
  return world_->send(world_rank(to), id_, activity_.operation, data, bytes, keep);
}

std::shared_ptr<SendState> Channel::send_owned(int to, std::unique_ptr<std::byte[]> data,
                                               std::size_t bytes) {
  return world_->send(world_rank(to), id_, activity_.operation, nullptr, bytes, {},
                      std::move(data));
}

std::shared_ptr<ReceiveState> Channel::receive(int from, std::byte* out, std::size_t bytes,
                                               const Tensor& keep) {
  return world_->receive(world_rank(from), id_, activity_.operation, out, bytes, keep);
}

void Channel::wait(const bool& done, int peer) {
  activity_.waiting_on = {world_rank(peer)};
  world_->wait(done, id_, activity_);
}

void Channel::wait(const ReceiveState& state, int from) {
  wait(state.done, from);
}
void Channel::wait(const SendState& state, int to) {
  wait(state.done, to);
}

Activity Channel::pairwise(const Operation& operation) const {
  Activity activity = activity_;
  activity.operation = operation;
  activity.waiting_on = {world_rank(operation.peer)};
  return activity;
}

void PendingSends::add(std::shared_ptr<SendState> state) {
  while (!states_.empty() && states_.front()->done) states_.pop_front();
  states_.push_back(std::move(state));
}

void PendingSends::wait() {
  for (const auto& state : states_) channel_.wait(*state, to_);
  states_.clear();
}

}  // namespace coeus::comm
