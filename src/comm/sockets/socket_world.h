#pragma once
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "comm/sockets/link.h"
#include "comm/store.h"

namespace coeus::comm {

// A message that is wanted: read straight into `out`, or into `owned` where out is null.
struct ReceiveState {
  Operation operation;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  Tensor keep;
  std::unique_ptr<std::byte[]> owned;
  bool done = false;
  std::byte* data() { return out ? out : owned.get(); }
};

// What a rank is doing in one group: told to ranks that ask at their deadline.
struct Activity {
  std::string group;
  Operation operation;
  std::uint32_t sequence = 0;
  std::vector<int> members;     // world ranks
  std::vector<int> waiting_on;  // world ranks whose message is needed now
};

// All connections of this process within one world. They are made when first used and carry the
// messages of every group, each on its own channel. While anything waits, whatever arrives is read,
// so that ranks that send to each other cannot block each other.
class SocketWorld {
 public:
  // Collective, through the store. Throws CommError naming the ranks that did not come.
  SocketWorld(const World& world, Store& store, const Timeouts& timeouts);
  ~SocketWorld();
  SocketWorld(const SocketWorld&) = delete;
  SocketWorld& operator=(const SocketWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(addresses_.size()); }
  // The ranks have met: deadlines are those of operations from now on, no longer that of the start.
  void started() { deadline_ = timeouts_.operation; }

  std::shared_ptr<SendState> send(int to, std::uint32_t channel, const Operation& operation,
                                  const std::byte* data, std::size_t bytes, const Tensor& keep,
                                  std::unique_ptr<std::byte[]> owned = nullptr);
  std::shared_ptr<ReceiveState> receive(int from, std::uint32_t channel, const Operation& operation,
                                        std::byte* out, std::size_t bytes, const Tensor& keep);
  // Throws CommError on the deadline, a lost peer, a mismatch or an abort; then the whole world has
  // failed.
  void wait(const bool& done, std::uint32_t channel, const Activity& activity);

  void abort(const std::string& reason) noexcept;
  void check_usable();
  std::uint32_t next_channel() const { return next_channel_; }
  void use_channel(std::uint32_t channel) { next_channel_ = channel + 1; }

 private:
  struct Arrival {
    FrameHeader header;
    std::string text;
    std::unique_ptr<std::byte[]> bytes;
    bool complete = false;
    std::shared_ptr<ReceiveState> wanted;
  };
  struct Queue {  // from one rank on one channel
    std::deque<std::shared_ptr<ReceiveState>> wanted;
    std::deque<std::shared_ptr<Arrival>> arrived;
  };
  struct Answer {
    bool same_operation = false;
    std::string text;
  };
  class Announced;
  using Clock = std::chrono::steady_clock;

  void poll_once(std::chrono::milliseconds at_most);
  void accept_all();
  void serve(Link& link, short events);
  std::byte* on_frame(Link& link, const FrameHeader& header, const std::string& text);
  void on_payload(Link& link, const FrameHeader& header);
  void on_hello(Link& link, const FrameHeader& header);
  std::byte* on_data(Link& link, const FrameHeader& header, const std::string& text);
  void answer(Link& link, const FrameHeader& question);
  bool fits(const ReceiveState& wanted, int from, const FrameHeader& header,
            const std::string& text);
  void hand_over(Arrival& arrival, ReceiveState& wanted);
  Link& link_to(int peer);
  void write(Link& link);
  void deliver_to_self(std::uint32_t channel, SendState& state, const FrameHeader& header,
                       const std::string& text);
  void throw_if_failed() const;
  void on_closed(Link& link);
  void serve_all();
  bool has_left(int peer) const;
  void fail(const std::string& reason) noexcept;
  void check_departed(const Activity& activity);
  void ask(std::uint32_t channel, const Activity& activity);
  std::chrono::milliseconds grace() const;
  std::string name_missing(const Activity& activity) const;

  int rank_;
  Timeouts timeouts_;
  std::chrono::milliseconds deadline_;
  std::uint64_t token_ = 0;  // of this world: connections of others are refused
  std::vector<Address> addresses_;
  Listener listener_;
  Fd wake_;

  std::mutex mutex_;  // all below; not held while sleeping
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> link_of_peer_;
  struct Traffic {  // data messages exchanged with one rank
    std::uint64_t sent = 0, received = 0;
    std::optional<std::uint64_t> announced;  // how many it sent in all, told when it left
  };
  std::vector<Traffic> traffic_;
  std::map<std::pair<int, std::uint32_t>, Queue> queues_;
  std::map<const Link*, std::pair<std::shared_ptr<Arrival>, std::shared_ptr<ReceiveState>>>
      reading_;
  std::map<std::uint32_t, const Activity*> activities_;  // of the waits in progress, by channel
  std::map<int, Answer> answers_;
  std::optional<std::string> failure_;
  std::uint32_t next_channel_ = 1;
};

}  // namespace coeus::comm
