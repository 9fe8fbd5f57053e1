#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "comm/threads/exchange.h"
#include "comm/threads/futex.h"

namespace coeus::comm {

// All groups of one run_threads, so that a failed rank ends every wait.
class ThreadWorld {
 public:
  explicit ThreadWorld(const Timeouts& timeouts) : timeouts_(timeouts) {}
  const Timeouts& timeouts() const { return timeouts_; }
  void add(const std::shared_ptr<ThreadGroup>& group);
  void end(const std::string& reason) noexcept;  // fails every group for good

 private:
  Timeouts timeouts_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<ThreadGroup>> groups_;
  std::optional<std::string> reason_;
};

// The state that the ranks of one group share. Ranks meet per operation, by sequence number.
class ThreadGroup : public std::enable_shared_from_this<ThreadGroup> {
 public:
  enum class Failure { until_rearm, final };

  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::string name, std::vector<int> world_ranks);
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::string& name() const { return name_; }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  std::shared_ptr<Exchange> arrive(int rank, const Operation& operation, Part part);
  void wait(Exchange& exchange, int rank);

  void send(int from, const Operation& operation, const Tensor& tensor);
  std::uint64_t begin_recv(int to, const Operation& operation);
  void finish_recv(int to, std::uint64_t ticket, const Operation& operation, std::byte* out);

  void fail(const std::string& reason, Failure kind) noexcept;
  void rearm(int rank);
  void leave(int rank) noexcept;  // its communicator is gone: who waits for this rank fails

 private:
  struct Message {
    Operation operation;
    std::unique_ptr<std::byte[]> bytes;
  };
  struct Mailbox {  // one for each ordered pair
    std::uint64_t num_sent = 0, num_received = 0;
    std::map<std::uint64_t, Message> messages;
  };

  void complete(Exchange& exchange);
  void help(Exchange& exchange);
  void split(Exchange& exchange);
  void time_out(Exchange& exchange, int rank);
  void check_usable() const;
  void check_nobody_left(const Exchange& exchange);
  void fail_locked(const std::string& reason);
  [[noreturn]] void throw_failure();
  void reset_locked();
  Clock::time_point deadline() const { return Clock::now() + world_->timeouts().operation; }
  std::string here(int rank, const Operation& operation) const;
  Mailbox& mailbox(int from, int to) {
    return mailboxes_[static_cast<std::size_t>(from * size() + to)];
  }

  const std::shared_ptr<ThreadWorld> world_;
  const std::string name_;
  const std::vector<int> world_ranks_;

  std::mutex mutex_;
  std::vector<std::uint64_t> sequence_;  // operations issued, by rank
  std::map<std::uint64_t, std::shared_ptr<Exchange>> gathering_;
  std::vector<Mailbox> mailboxes_;
  std::vector<std::atomic<std::uint32_t>> mail_;  // by receiver; changes with every delivery
  std::vector<char> left_, rearming_;
  std::atomic<std::uint32_t> rearms_{0};
  std::optional<std::string> failure_;
  bool final_ = false;
};

}  // namespace coeus::comm
