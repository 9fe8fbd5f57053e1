#include "comm/sockets/socket_world.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

using namespace std::chrono_literals;

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1";
}

std::string own_host(const World& world) {
  const std::string host = address_towards({world.master_address, world.master_port});
  // The master's name may mean loopback on its own machine; the others then use the name they know.
  return is_loopback(host) && world.num_nodes > 1 ? std::string() : host;
}

std::uint64_t random_token() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

SocketWorld::SocketWorld(const World& world, Store& store, const Timeouts& timeouts)
    : rank_(world.rank), timeouts_(timeouts), deadline_(timeouts.startup) {
  const std::string host = own_host(world);
  listener_ = open_listener(host);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto all = store.exchange(
      fmt::format("{} {} {}", random_token(), listener_.port, host.empty() ? "-" : host));
  for (const std::string& text : all) {
    std::istringstream words(text);
    std::uint64_t token = 0;
    Address address;
    words >> token >> address.port >> address.host;
    if (address.host == "-") address.host = world.master_address;
    if (addresses_.empty()) token_ = token;
    addresses_.push_back(address);
  }
  link_of_peer_.resize(addresses_.size());
  traffic_.resize(addresses_.size());
}

SocketWorld::~SocketWorld() {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  FrameHeader bye;
  bye.kind = FrameKind::bye;
  for (const auto& link : links_) {
    if (link->peer < 0) continue;
    bye.count = traffic_[static_cast<std::size_t>(link->peer)].sent;
    link->write_control(control_frame(bye, ""));
  }
}

void SocketWorld::throw_if_failed() const {
  if (failure_) throw CommError(*failure_);
}

void SocketWorld::check_usable() {
  std::lock_guard lock(mutex_);
  throw_if_failed();
}

Link& SocketWorld::link_to(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (link_of_peer_[index]) return *link_of_peer_[index];
  links_.push_back(std::make_unique<Link>(start_connect(addresses_[index]), peer));
  FrameHeader hello;
  hello.kind = FrameKind::hello;
  hello.channel = static_cast<std::uint32_t>(rank_);
  hello.count = token_;
  auto state = std::make_shared<SendState>();
  state->head = control_frame(hello, "");
  links_.back()->enqueue(std::move(state));
  link_of_peer_[index] = links_.back().get();
  return *links_.back();
}

std::shared_ptr<SendState> SocketWorld::send(int to, std::uint32_t channel,
                                             const Operation& operation, const std::byte* data,
                                             std::size_t bytes, const Tensor& keep,
                                             std::unique_ptr<std::byte[]> owned) {
  auto state = std::make_shared<SendState>();
  state->owned = std::move(owned);
  state->data = state->owned ? state->owned.get() : data;
  state->bytes = bytes;
  state->keep = keep;
  const FrameHeader header = data_header(operation, channel, bytes);
  std::lock_guard lock(mutex_);
  throw_if_failed();
  if (to == rank_) {
    deliver_to_self(channel, *state, header, operation.label);
    return state;
  }
  state->head = control_frame(header, operation.label);
  ++traffic_[static_cast<std::size_t>(to)].sent;
  Link& link = link_to(to);
  link.enqueue(state);
  write(link);
  throw_if_failed();
  return state;
}

void SocketWorld::deliver_to_self(std::uint32_t channel, SendState& state,
                                  const FrameHeader& header, const std::string& text) {
  auto arrival = std::make_shared<Arrival>();
  arrival->header = header;
  arrival->text = text;
  arrival->bytes = std::make_unique_for_overwrite<std::byte[]>(state.bytes);
  if (state.bytes > 0) std::memcpy(arrival->bytes.get(), state.data, state.bytes);
  arrival->complete = true;
  state.done = true;
  Queue& queue = queues_[{rank_, channel}];
  if (queue.wanted.empty()) {
    queue.arrived.push_back(std::move(arrival));
    return;
  }
  const auto wanted = queue.wanted.front();
  queue.wanted.pop_front();
  if (fits(*wanted, rank_, header, text)) hand_over(*arrival, *wanted);
}

std::shared_ptr<ReceiveState> SocketWorld::receive(int from, std::uint32_t channel,
                                                   const Operation& operation, std::byte* out,
                                                   std::size_t bytes, const Tensor& keep) {
  auto wanted = std::make_shared<ReceiveState>();
  wanted->operation = operation;
  wanted->out = out;
  wanted->bytes = bytes;
  wanted->keep = keep;
  std::lock_guard lock(mutex_);
  throw_if_failed();
  Queue& queue = queues_[{from, channel}];
  if (queue.arrived.empty()) {
    queue.wanted.push_back(wanted);
    return wanted;
  }
  const auto arrival = queue.arrived.front();
  queue.arrived.pop_front();
  if (!fits(*wanted, from, arrival->header, arrival->text)) throw_if_failed();
  if (arrival->complete) {
    hand_over(*arrival, *wanted);
  } else {
    arrival->wanted = wanted;
  }
  return wanted;
}

void SocketWorld::hand_over(Arrival& arrival, ReceiveState& wanted) {
  if (!wanted.out) {
    wanted.owned = std::move(arrival.bytes);
  } else if (wanted.bytes > 0) {
    std::memcpy(wanted.out, arrival.bytes.get(), wanted.bytes);
  }
  wanted.done = true;
}

bool SocketWorld::fits(const ReceiveState& wanted, int from, const FrameHeader& header,
                       const std::string& text) {
  const Operation theirs = operation_of(header, text);
  if (agree(theirs, wanted.operation) && header.bytes == wanted.bytes) return true;
  const auto activity = activities_.find(header.channel);
  fail(fmt::format("{}rank {} called {} where rank {} called {}",
                   activity == activities_.end()
                       ? std::string()
                       : fmt::format("group {}: ", activity->second->group),
                   from, describe(theirs), rank_, describe(wanted.operation)));
  return false;
}

std::byte* SocketWorld::on_frame(Link& link, const FrameHeader& header, const std::string& text) {
  switch (header.kind) {
    case FrameKind::hello:
      on_hello(link, header);
      break;
    case FrameKind::abort:
      fail(text);
      break;
    case FrameKind::bye:
      traffic_[static_cast<std::size_t>(link.peer)].announced = header.count;
      break;
    case FrameKind::ask:
      answer(link, header);
      break;
    case FrameKind::answer:
      answers_[link.peer] = {header.count == 1, text};
      break;
    case FrameKind::data:
      return on_data(link, header, text);
  }
  return nullptr;
}

void SocketWorld::on_hello(Link& link, const FrameHeader& header) {
  if (header.count != token_ || header.channel >= addresses_.size()) return;  // a stranger
  link.peer = static_cast<int>(header.channel);
  auto& slot = link_of_peer_[static_cast<std::size_t>(link.peer)];
  if (!slot) slot = &link;
}

std::byte* SocketWorld::on_data(Link& link, const FrameHeader& header, const std::string& text) {
  Queue& queue = queues_[{link.peer, header.channel}];
  auto& [arrival, wanted] = reading_[&link];
  if (queue.wanted.empty()) {
    arrival = std::make_shared<Arrival>();
    arrival->header = header;
    arrival->text = text;
    arrival->bytes = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
    queue.arrived.push_back(arrival);
    return arrival->bytes.get();
  }
  wanted = queue.wanted.front();
  queue.wanted.pop_front();
  if (!fits(*wanted, link.peer, header, text)) return nullptr;
  if (!wanted->out) wanted->owned = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
  return wanted->data();
}

void SocketWorld::on_payload(Link& link, const FrameHeader& header) {
  if (header.kind != FrameKind::data) return;
  ++traffic_[static_cast<std::size_t>(link.peer)].received;
  auto [arrival, wanted] = std::exchange(reading_[&link], {});
  if (wanted) wanted->done = true;
  if (!arrival) return;
  arrival->complete = true;
  if (arrival->wanted) hand_over(*arrival, *arrival->wanted);
}

void SocketWorld::answer(Link& link, const FrameHeader& question) {
  FrameHeader reply = question;
  reply.kind = FrameKind::answer;
  const auto activity = activities_.find(question.channel);
  const bool active = activity != activities_.end();
  reply.count = active && activity->second->sequence == question.sequence;
  link.write_control(
      control_frame(reply, active ? describe(activity->second->operation) : std::string()));
}

void SocketWorld::poll_once(std::chrono::milliseconds at_most) {
  std::vector<pollfd> fds;
  {
    std::lock_guard lock(mutex_);
    fds.push_back({wake_.get(), POLLIN, 0});
    fds.push_back({listener_.fd.get(), POLLIN, 0});
    for (const auto& link : links_) {
      const int events = POLLIN | (link->wants_to_write() ? POLLOUT : 0);
      fds.push_back({link->closed ? -1 : link->fd(), static_cast<short>(events), 0});
    }
  }
  if (poll(fds.data(), fds.size(), static_cast<int>(at_most.count())) <= 0) return;
  std::lock_guard lock(mutex_);
  for (std::size_t i = 2; i < fds.size() && !failure_; ++i) {
    if (fds[i].revents != 0) serve(*links_[i - 2], fds[i].revents);
  }
  if (fds[1].revents != 0) accept_all();
}

void SocketWorld::accept_all() {
  while (Fd fd = accept_connection(listener_.fd.get())) {
    links_.push_back(std::make_unique<Link>(std::move(fd), -1));
  }
}

void SocketWorld::serve(Link& link, short events) {
  if (link.closed) return;
  const Link::Events handlers{
      .on_frame = [this](Link& l, const FrameHeader& h,
                         const std::string& text) { return on_frame(l, h, text); },
      .on_payload = [this](Link& l, const FrameHeader& h) { on_payload(l, h); }};
  // Reading first: a peer that failed says why before it closes.
  const bool readable = (events & (POLLIN | POLLHUP | POLLERR)) != 0;
  if (readable && link.read_available(handlers) == Link::Status::closed) on_closed(link);
  if ((events & POLLOUT) != 0 && !link.closed && link.write_queued() == Link::Status::closed) {
    on_closed(link);
  }
}

void SocketWorld::write(Link& link) {
  if (link.closed || link.write_queued() == Link::Status::open) return;
  serve(link, POLLIN);
  on_closed(link);
}

void SocketWorld::on_closed(Link& link) {
  if (link.closed) return;
  link.closed = true;
  if (link.peer < 0) return;
  const auto& announced = traffic_[static_cast<std::size_t>(link.peer)].announced;
  // Ranks that connected at the same time have two connections: the farewell may lie on the other.
  if (!announced) serve_all();
  if (!announced) {
    fail(fmt::format("lost rank {}: its connection to rank {} was closed", link.peer, rank_));
  }
}

void SocketWorld::serve_all() {
  accept_all();
  for (std::size_t i = 0; i < links_.size() && !failure_; ++i) serve(*links_[i], POLLIN);
}

// It said so, and nothing that it sent is still under way.
bool SocketWorld::has_left(int peer) const {
  const Traffic& traffic = traffic_[static_cast<std::size_t>(peer)];
  return traffic.announced && traffic.received >= *traffic.announced;
}

void SocketWorld::fail(const std::string& reason) noexcept {
  if (failure_) return;
  failure_ = reason;
  FrameHeader header;
  header.kind = FrameKind::abort;
  const std::string frame = control_frame(header, reason);
  for (const auto& link : links_) {
    link->write_control(frame);
    link->shut_down();
    link->closed = true;
  }
}

void SocketWorld::abort(const std::string& reason) noexcept {
  std::lock_guard lock(mutex_);
  fail(reason);
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void SocketWorld::check_departed(const Activity& activity) {
  for (const int peer : activity.waiting_on) {
    if (!has_left(peer)) continue;
    fail(fmt::format("rank {}, group {}: {}: rank {} has left", rank_, activity.group,
                     describe(activity.operation), peer));
    throw_if_failed();
  }
}

// How long the others have to say that they are in the same operation.
std::chrono::milliseconds SocketWorld::grace() const {
  return std::clamp<std::chrono::milliseconds>(deadline_ / 2, 1000ms, 2000ms);
}

void SocketWorld::ask(std::uint32_t channel, const Activity& activity) {
  constexpr std::size_t kMost = 256;  // each would ask each
  answers_.clear();
  const bool pairwise = is_pairwise(activity.operation);
  const auto& peers = pairwise ? activity.waiting_on : activity.members;
  if (peers.size() > kMost) return;
  FrameHeader question;
  question.kind = FrameKind::ask;
  question.channel = channel;
  question.sequence = activity.sequence;
  for (const int peer : peers) {
    if (peer == rank_ || has_left(peer)) continue;
    auto state = std::make_shared<SendState>();
    state->head = control_frame(question, "");
    Link& link = link_to(peer);
    link.enqueue(std::move(state));
    write(link);
  }
}

std::string SocketWorld::name_missing(const Activity& activity) const {
  std::vector<int> missing;
  std::string elsewhere;
  for (const int peer : activity.members) {
    if (peer == rank_) continue;
    const auto answer = answers_.find(peer);
    if (answer == answers_.end()) {
      missing.push_back(peer);
    } else if (!answer->second.same_operation) {
      missing.push_back(peer);
      if (!answer->second.text.empty()) {
        elsewhere += fmt::format("; rank {} is in {}", peer, answer->second.text);
      }
    }
  }
  const bool pairwise = is_pairwise(activity.operation);
  const bool unknown = missing.empty() || answers_.empty();
  return name_ranks(pairwise || unknown ? activity.waiting_on : missing) + " after " +
         format_seconds(std::chrono::duration<double>(deadline_).count()) + elsewhere;
}

// While it waits, a rank answers those that ask what it is doing.
class SocketWorld::Announced {
 public:
  Announced(SocketWorld& world, std::uint32_t channel, const Activity& activity)
      : world_(world), channel_(channel) {
    std::lock_guard lock(world_.mutex_);
    world_.activities_[channel_] = &activity;
  }
  ~Announced() {
    std::lock_guard lock(world_.mutex_);
    world_.activities_.erase(channel_);
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;

 private:
  SocketWorld& world_;
  std::uint32_t channel_;
};

void SocketWorld::wait(const bool& done, std::uint32_t channel, const Activity& activity) {
  const auto begin = Clock::now();
  auto until = begin + deadline_;
  bool connected = false, asked = false;
  const Announced announced(*this, channel, activity);
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      throw_if_failed();
      if (done) return;
      check_departed(activity);
      if (!connected && Clock::now() > begin + 200ms) {
        // A connection to whom we wait for: it breaks when that process dies.
        for (const int peer : activity.waiting_on) (void)link_to(peer);
        connected = true;
      }
      if (Clock::now() > until) {
        if (asked) {
          fail(fmt::format("rank {}, group {}: {}: no answer from {}", rank_, activity.group,
                           describe(activity.operation), name_missing(activity)));
          throw_if_failed();
        }
        ask(channel, activity);
        asked = true;
        until += grace();
      }
    }
    poll_once(50ms);
  }
}

}  // namespace coeus::comm
