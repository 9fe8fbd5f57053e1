#include "comm/sockets/link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

constexpr std::uint32_t kLongestText = 1 << 16;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

FrameHeader data_header(const Operation& operation, std::uint32_t channel, std::size_t bytes) {
  FrameHeader header;
  header.op = static_cast<std::uint8_t>(operation.op);
  header.dtype = static_cast<std::uint8_t>(operation.dtype);
  header.reduce = static_cast<std::uint8_t>(operation.reduce);
  header.channel = channel;
  header.peer = operation.peer;
  header.count = static_cast<std::uint64_t>(operation.count);
  header.bytes = bytes;
  return header;
}

Operation operation_of(const FrameHeader& header, const std::string& text) {
  return {.op = static_cast<Op>(header.op),
          .dtype = static_cast<at::ScalarType>(header.dtype),
          .count = static_cast<std::int64_t>(header.count),
          .reduce = static_cast<ReduceOp>(header.reduce),
          .peer = header.peer,
          .label = text};
}

std::string control_frame(FrameHeader header, const std::string& text) {
  const std::string kept = text.substr(0, kLongestText);
  header.text_bytes = static_cast<std::uint32_t>(kept.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + kept;
}

void Link::enqueue(std::shared_ptr<SendState> state) {
  queue_.push_back(std::move(state));
}

Link::Status Link::write_queued() {
  while (!queue_.empty()) {
    SendState& state = *queue_.front();
    const std::size_t head = state.head.size();
    const std::size_t data_sent = state.sent > head ? state.sent - head : 0;
    iovec parts[2] = {};
    std::size_t num_parts = 0;
    if (state.sent < head) parts[num_parts++] = {state.head.data() + state.sent, head - state.sent};
    if (data_sent < state.bytes) {
      parts[num_parts++] = {const_cast<std::byte*>(state.data) + data_sent,
                            state.bytes - data_sent};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = num_parts;
    const ssize_t n = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return would_block() ? Status::open : Status::closed;
    state.sent += static_cast<std::size_t>(n);
    if (state.sent < head + state.bytes) continue;
    state.done = true;
    queue_.pop_front();
  }
  return Status::open;
}

Link::Status Link::read_available(const Events& events) {
  for (;;) {
    std::byte* to = part_ == Part::header ? reinterpret_cast<std::byte*>(&header_)
                    : part_ == Part::text ? reinterpret_cast<std::byte*>(text_.data())
                                          : payload_;
    const std::size_t size = part_ == Part::header ? sizeof(header_)
                             : part_ == Part::text ? text_.size()
                                                   : header_.bytes;
    while (filled_ < size) {
      const ssize_t n = recv(fd(), to + filled_, size - filled_, MSG_DONTWAIT);
      if (n == 0) return Status::closed;
      if (n < 0) return would_block() ? Status::open : Status::closed;
      filled_ += static_cast<std::size_t>(n);
    }
    if (!next_part(events)) return Status::closed;
  }
}

// False where the other side does not speak our protocol.
bool Link::next_part(const Events& events) {
  filled_ = 0;
  if (part_ == Part::header) {
    if (header_.magic != FrameHeader{}.magic || header_.text_bytes > kLongestText) return false;
    if (peer < 0 && (header_.kind != FrameKind::hello || header_.bytes > 0)) return false;
    text_.resize(header_.text_bytes);
    part_ = Part::text;
  } else if (part_ == Part::text) {
    payload_ = events.on_frame(*this, header_, text_);
    if (peer < 0 || closed) return false;
    part_ = Part::payload;
  } else {
    events.on_payload(*this, header_);
    part_ = Part::header;
  }
  return true;
}

void Link::write_control(const std::string& frame) noexcept {
  const bool between_frames = queue_.empty() || queue_.front()->sent == 0;
  if (!closed && between_frames)
    send(fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Link::shut_down() noexcept {
  shutdown(fd(), SHUT_WR);
}

}  // namespace coeus::comm
