#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "comm/operation.h"
#include "comm/sockets/tcp.h"

namespace coeus::comm {

enum class FrameKind : std::uint8_t { hello, data, abort, bye, ask, answer };

// What precedes every message on a connection; `text_bytes` of text and `bytes` of payload follow.
// All ranks run the same binary on little-endian machines, so the struct itself goes over the wire.
struct FrameHeader {
  std::uint32_t magic = 0x434f4555;
  FrameKind kind = FrameKind::data;
  std::uint8_t op = 0, dtype = 0, reduce = 0;
  std::uint32_t channel = 0;  // the group; hello: the world rank that connects
  std::int32_t peer = -1;
  std::uint64_t count = 0;  // hello: the token of the world; bye: messages sent in all
  std::uint64_t bytes = 0;
  std::uint32_t text_bytes = 0;
  std::uint32_t sequence = 0;
};
FrameHeader data_header(const Operation& operation, std::uint32_t channel, std::size_t bytes);
Operation operation_of(const FrameHeader& header, const std::string& text);

struct SendState {
  std::string head;  // header and text
  const std::byte* data = nullptr;
  std::size_t bytes = 0, sent = 0;  // sent counts the head too
  Tensor keep;
  std::unique_ptr<std::byte[]> owned;
  bool done = false;
};

// One connection, non-blocking: writes what is queued, hands whole headers to `on_frame`, which
// says where the payload goes.
class Link {
 public:
  enum class Status { open, closed };
  struct Events {
    std::function<std::byte*(Link&, const FrameHeader&, const std::string& text)> on_frame;
    std::function<void(Link&, const FrameHeader&)> on_payload;  // the payload is complete
  };

  Link(Fd fd, int peer_in) : peer(peer_in), fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  bool wants_to_write() const { return !queue_.empty(); }
  void enqueue(std::shared_ptr<SendState> state);
  Status write_queued();
  Status read_available(const Events& events);
  // Between two frames: a control frame may be written at once, past the queue.
  void write_control(const std::string& frame) noexcept;
  void shut_down() noexcept;

  int peer;             // world rank; -1 until its hello came
  bool closed = false;  // by either side

 private:
  bool next_part(const Events& events);

  Fd fd_;
  std::deque<std::shared_ptr<SendState>> queue_;
  FrameHeader header_;
  std::string text_;
  std::byte* payload_ = nullptr;
  enum class Part { header, text, payload } part_ = Part::header;
  std::size_t filled_ = 0;
};

std::string control_frame(FrameHeader header, const std::string& text);

}  // namespace coeus::comm
