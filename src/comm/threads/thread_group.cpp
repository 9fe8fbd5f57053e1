#include "comm/threads/thread_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

constexpr std::int64_t kInlineBytes = 256 * 1024;  // below, waking helpers costs more than the work

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void ThreadWorld::add(const std::shared_ptr<ThreadGroup>& group) {
  std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& g) { return g.expired(); });
  groups_.push_back(group);
  if (reason_) group->fail(*reason_, ThreadGroup::Failure::final);
}

void ThreadWorld::end(const std::string& reason) noexcept {
  std::lock_guard lock(mutex_);
  if (!reason_) reason_ = reason;
  for (const auto& weak : groups_) {
    if (const auto group = weak.lock()) group->fail(*reason_, ThreadGroup::Failure::final);
  }
}

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::string name,
                         std::vector<int> world_ranks)
    : world_(std::move(world)),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      sequence_(world_ranks_.size()),
      mailboxes_(world_ranks_.size() * world_ranks_.size()),
      mail_(world_ranks_.size()),
      left_(world_ranks_.size()),
      rearming_(world_ranks_.size()) {}

std::string ThreadGroup::here(int rank, const Operation& operation) const {
  return fmt::format("rank {}, group {}: {}", world_ranks_[at(rank)], name_, describe(operation));
}

void ThreadGroup::check_usable() const {
  if (failure_) throw CommError(*failure_);
}

void ThreadGroup::throw_failure() {
  std::lock_guard lock(mutex_);
  throw CommError(failure_.value_or(fmt::format("group {} was aborted", name_)));
}

std::shared_ptr<Exchange> ThreadGroup::arrive(int rank, const Operation& operation, Part part) {
  std::shared_ptr<Exchange> exchange;
  {
    std::lock_guard lock(mutex_);
    check_usable();
    const std::uint64_t sequence = sequence_[at(rank)]++;
    auto& slot = gathering_[sequence];
    if (!slot) slot = std::make_shared<Exchange>(operation, rank, size());
    exchange = slot;
    if (!agree(exchange->operation, operation)) {
      fail_locked(fmt::format("group {}: rank {} called {} where rank {} called {}", name_,
                              world_ranks_[at(rank)], describe(operation),
                              world_ranks_[at(exchange->first_rank)],
                              describe(exchange->operation)));
      check_usable();
    }
    exchange->parts[at(rank)] = std::move(part);
    exchange->arrived[at(rank)] = true;
    if (++exchange->num_arrived < size()) {
      check_nobody_left(*exchange);
      return exchange;
    }
    gathering_.erase(sequence);
    if (const std::string mismatch = exchange->find_row_mismatch(world_ranks_); !mismatch.empty()) {
      exchange->state.store(Exchange::failed, std::memory_order_release);
      futex_wake_all(exchange->state);
      fail_locked(fmt::format("group {}: {}", name_, mismatch));
      check_usable();
    }
  }
  complete(*exchange);
  return exchange;
}

void ThreadGroup::check_nobody_left(const Exchange& exchange) {
  for (int r = 0; r < size(); ++r) {
    if (left_[at(r)] && !exchange.arrived[at(r)]) {
      fail_locked(fmt::format("group {}: {}: rank {} has left the group", name_,
                              describe(exchange.operation), world_ranks_[at(r)]));
      check_usable();
    }
  }
}

// All have arrived. Little work is done here and now; more is shared among the ranks that wait.
void ThreadGroup::complete(Exchange& exchange) {
  if (exchange.operation.op == Op::split) split(exchange);
  exchange.num_chunks = exchange.operation.count > 0 ? exchange.count_chunks() : 0;
  if (exchange.num_chunks <= 1 || exchange.work_bytes() <= kInlineBytes) {
    for (std::int64_t c = 0; c < exchange.num_chunks; ++c) exchange.run_chunk(c);
    exchange.state.store(Exchange::done, std::memory_order_release);
    futex_wake_all(exchange.state);
    return;
  }
  exchange.state.store(Exchange::ready, std::memory_order_release);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  futex_wake(exchange.state, std::max(1, cores));
}

void ThreadGroup::help(Exchange& exchange) {
  std::int64_t chunk;
  while ((chunk = exchange.next_chunk.fetch_add(1)) < exchange.num_chunks) {
    exchange.run_chunk(chunk);
    if (exchange.num_done.fetch_add(1, std::memory_order_acq_rel) + 1 == exchange.num_chunks) {
      exchange.state.store(Exchange::done, std::memory_order_release);
      futex_wake_all(exchange.state);
    }
  }
}

void ThreadGroup::wait(Exchange& exchange, int rank) {
  const auto until = deadline();
  for (;;) {
    switch (exchange.state.load(std::memory_order_acquire)) {
      case Exchange::done:
        return;
      case Exchange::failed:
        throw_failure();
      case Exchange::ready:
        help(exchange);  // what is left then is with ranks that are at work on it: no deadline
        futex_wait(exchange.state, Exchange::ready, std::nullopt);
        break;
      default:
        if (!futex_wait(exchange.state, Exchange::gathering, until)) time_out(exchange, rank);
    }
  }
}

void ThreadGroup::time_out(Exchange& exchange, int rank) {
  std::lock_guard lock(mutex_);
  if (exchange.state.load(std::memory_order_acquire) != Exchange::gathering) return;
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    if (!exchange.arrived[at(r)]) missing.push_back(world_ranks_[at(r)]);
  }
  if (missing.empty()) return;  // the last rank is about to make it ready
  fail_locked(fmt::format("{}: no answer from {} after {}", here(rank, exchange.operation),
                          name_ranks(missing),
                          format_seconds(seconds(world_->timeouts().operation))));
  check_usable();
}

void ThreadGroup::split(Exchange& exchange) {
  std::map<int, std::vector<int>> members;
  std::map<int, std::string> names;
  for (int r = 0; r < size(); ++r) {
    const Part& part = exchange.parts[at(r)];
    if (part.color < 0) continue;
    members[part.color].push_back(world_ranks_[at(r)]);
    names[part.color] = part.name;
  }
  for (auto& [color, ranks] : members) {
    auto group = std::make_shared<ThreadGroup>(world_, names[color], std::move(ranks));
    world_->add(group);
    exchange.made[color] = std::move(group);
  }
}

void ThreadGroup::send(int from, const Operation& operation, const Tensor& tensor) {
  const std::size_t bytes = tensor.nbytes();
  Message message{operation, std::make_unique_for_overwrite<std::byte[]>(bytes)};
  if (bytes > 0) std::memcpy(message.bytes.get(), tensor.const_data_ptr(), bytes);
  const int to = operation.peer;
  std::lock_guard lock(mutex_);
  check_usable();
  Mailbox& box = mailbox(from, to);
  box.messages.emplace(box.num_sent++, std::move(message));
  mail_[at(to)].fetch_add(1, std::memory_order_release);
  futex_wake_all(mail_[at(to)]);
}

std::uint64_t ThreadGroup::begin_recv(int to, const Operation& operation) {
  std::lock_guard lock(mutex_);
  check_usable();
  return mailbox(operation.peer, to).num_received++;
}

void ThreadGroup::finish_recv(int to, std::uint64_t ticket, const Operation& operation,
                              std::byte* out) {
  const int from = operation.peer;
  const auto until = deadline();
  Message message;
  for (bool late = false;;) {
    std::uint32_t seen;
    {
      std::lock_guard lock(mutex_);
      check_usable();
      auto found = mailbox(from, to).messages.extract(ticket);
      if (found) {
        message = std::move(found.mapped());
        break;
      }
      if (left_[at(from)] || late) {
        fail_locked(fmt::format(
            "{}: {}", here(to, operation),
            late ? fmt::format("no answer from rank {} after {}", world_ranks_[at(from)],
                               format_seconds(seconds(world_->timeouts().operation)))
                 : fmt::format("rank {} has left the group", world_ranks_[at(from)])));
        check_usable();
      }
      seen = mail_[at(to)].load(std::memory_order_acquire);
    }
    late = !futex_wait(mail_[at(to)], seen, until);
  }
  if (message.operation.count != operation.count || message.operation.dtype != operation.dtype) {
    const std::string reason = fmt::format("group {}: rank {} called {} where rank {} called {}",
                                           name_, world_ranks_[at(to)], describe(operation),
                                           world_ranks_[at(from)], describe(message.operation));
    fail(reason, Failure::until_rearm);
    throw CommError(reason);
  }
  const std::size_t bytes =
      at(static_cast<int>(operation.count)) * c10::elementSize(operation.dtype);
  if (bytes > 0) std::memcpy(out, message.bytes.get(), bytes);
}

void ThreadGroup::fail_locked(const std::string& reason) {
  if (failure_) return;
  failure_ = reason;
  for (auto& [sequence, exchange] : gathering_) {
    exchange->state.store(Exchange::failed, std::memory_order_release);
    futex_wake_all(exchange->state);
  }
  gathering_.clear();
  for (auto& word : mail_) {
    word.fetch_add(1, std::memory_order_release);
    futex_wake_all(word);
  }
}

void ThreadGroup::fail(const std::string& reason, Failure kind) noexcept {
  std::lock_guard lock(mutex_);
  fail_locked(reason);
  if (kind == Failure::final && !final_) {
    final_ = true;
    failure_ = reason;
    rearms_.fetch_add(1, std::memory_order_release);
    futex_wake_all(rearms_);
  }
}

void ThreadGroup::reset_locked() {
  failure_.reset();
  gathering_.clear();
  std::fill(sequence_.begin(), sequence_.end(), 0);
  for (Mailbox& box : mailboxes_) box = Mailbox{};
  std::fill(rearming_.begin(), rearming_.end(), false);
}

void ThreadGroup::rearm(int rank) {
  const auto until = deadline();
  std::uint32_t round;
  {
    std::lock_guard lock(mutex_);
    if (final_) check_usable();
    rearming_[at(rank)] = true;
    round = rearms_.load(std::memory_order_acquire);
    if (std::count(rearming_.begin(), rearming_.end(), true) == size()) {
      reset_locked();
      rearms_.fetch_add(1, std::memory_order_release);
      futex_wake_all(rearms_);
      return;
    }
  }
  while (rearms_.load(std::memory_order_acquire) == round) {
    if (futex_wait(rearms_, round, until)) continue;
    std::lock_guard lock(mutex_);
    if (rearms_.load(std::memory_order_acquire) != round) break;
    std::vector<int> missing;
    for (int r = 0; r < size(); ++r) {
      if (!rearming_[at(r)]) missing.push_back(world_ranks_[at(r)]);
    }
    rearming_[at(rank)] = false;
    throw CommError(fmt::format("rank {}, group {}: rearm: no answer from {} after {}",
                                world_ranks_[at(rank)], name_, name_ranks(missing),
                                format_seconds(seconds(world_->timeouts().operation))));
  }
  std::lock_guard lock(mutex_);
  if (final_) check_usable();
}

void ThreadGroup::leave(int rank) noexcept {
  std::lock_guard lock(mutex_);
  left_[at(rank)] = true;
  for (const auto& [sequence, exchange] : gathering_) {
    if (exchange->arrived[at(rank)]) continue;
    fail_locked(fmt::format("group {}: {}: rank {} has left the group", name_,
                            describe(exchange->operation), world_ranks_[at(rank)]));
    return;
  }
  for (auto& word : mail_) {
    word.fetch_add(1, std::memory_order_release);
    futex_wake_all(word);
  }
}

}  // namespace coeus::comm
