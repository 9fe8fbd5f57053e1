#include "comm/sockets/ring.h"

#include <algorithm>

#include "comm/reduce.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

constexpr std::int64_t kPiece = 65536;  // elements

std::size_t width_of(at::ScalarType dtype) {
  return c10::elementSize(dtype);
}
std::size_t bytes_of(std::int64_t count, at::ScalarType dtype) {
  return static_cast<std::size_t>(count) * width_of(dtype);
}

// At least one, so that an empty slice is announced too.
std::vector<Range> pieces_of(const Range& slice) {
  std::vector<Range> pieces;
  for (std::int64_t at = 0; at < slice.count || pieces.empty(); at += kPiece) {
    pieces.push_back({slice.begin + at, std::min(kPiece, slice.count - at)});
  }
  return pieces;
}

std::unique_ptr<std::byte[]> widened(at::ScalarType dtype, const std::byte* input,
                                     std::int64_t count) {
  auto wide =
      std::make_unique_for_overwrite<std::byte[]>(bytes_of(count, accumulation_dtype(dtype)));
  widen(dtype, wide.get(), input, count);
  return wide;
}

}  // namespace

Slices cut_evenly(std::int64_t count, int ranks) {
  const std::int64_t part = (count + ranks - 1) / ranks;
  Slices slices;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t begin = std::min(count, r * part);
    slices.push_back({begin, std::min(part, count - begin)});
  }
  return slices;
}

void ring_reduce(Channel& channel, const std::byte* input, const Slices& slices, const Tensor& keep,
                 const StorePiece& store) {
  const int n = channel.size(), rank = channel.rank();
  const Operation& operation = channel.operation();
  const auto dtype = operation.dtype, wide = accumulation_dtype(dtype);
  const auto slice = [&](int steps_back) {
    return pieces_of(slices[static_cast<std::size_t>((rank - steps_back + 2 * n) % n)]);
  };
  const auto own = [&](const Range& piece) { return input + bytes_of(piece.begin, dtype); };
  PendingSends sends(channel, channel.right());
  for (const Range& piece : slice(1)) {
    const std::size_t bytes = bytes_of(piece.count, wide);
    sends.add(dtype == wide ? channel.send(channel.right(), own(piece), bytes, keep)
                            : channel.send_owned(channel.right(),
                                                 widened(dtype, own(piece), piece.count), bytes));
  }
  for (int step = 0; step < n - 1; ++step) {
    for (const Range& piece : slice(step + 2)) {
      const std::size_t bytes = bytes_of(piece.count, wide);
      const auto received = channel.receive(channel.left(), nullptr, bytes, {});
      channel.wait(*received, channel.left());
      accumulate(dtype, operation.reduce, received->data(), own(piece), piece.count);
      if (step == n - 2) {
        store(piece, received->data());
      } else {
        sends.add(channel.send_owned(channel.right(), std::move(received->owned), bytes));
      }
    }
  }
  sends.wait();
}

void ring_gather(Channel& channel, std::byte* data, const Slices& slices, const Tensor& keep) {
  const int n = channel.size(), rank = channel.rank();
  const auto dtype = channel.operation().dtype;
  const auto place = [&](const Range& piece) { return data + bytes_of(piece.begin, dtype); };
  const auto slice = [&](int steps_back) {
    return pieces_of(slices[static_cast<std::size_t>((rank - steps_back + n) % n)]);
  };
  struct Expected {
    std::shared_ptr<ReceiveState> state;
    Range piece;
    bool pass_on;
  };
  std::vector<Expected> expected;  // all at once, so that data is read to where it belongs
  for (int step = 1; step < n; ++step) {
    for (const Range& piece : slice(step)) {
      expected.push_back(
          {channel.receive(channel.left(), place(piece), bytes_of(piece.count, dtype), keep), piece,
           step < n - 1});
    }
  }
  PendingSends sends(channel, channel.right());
  const auto pass_on = [&](const Range& piece) {
    sends.add(channel.send(channel.right(), place(piece), bytes_of(piece.count, dtype), keep));
  };
  for (const Range& piece : slice(0)) pass_on(piece);
  for (const Expected& e : expected) {
    channel.wait(*e.state, channel.left());
    if (e.pass_on) pass_on(e.piece);
  }
  sends.wait();
}

void ring_broadcast(Channel& channel, std::byte* data, std::int64_t count, int root,
                    const Tensor& keep) {
  const auto dtype = channel.operation().dtype;
  const bool receives = channel.rank() != root, sends_on = channel.right() != root;
  std::vector<std::shared_ptr<ReceiveState>> received;
  const auto pieces = pieces_of({0, count});
  const auto place = [&](const Range& piece) { return data + bytes_of(piece.begin, dtype); };
  if (receives) {
    for (const Range& piece : pieces) {
      received.push_back(
          channel.receive(channel.left(), place(piece), bytes_of(piece.count, dtype), keep));
    }
  }
  PendingSends sends(channel, channel.right());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (receives) channel.wait(*received[i], channel.left());
    if (!sends_on) continue;
    sends.add(
        channel.send(channel.right(), place(pieces[i]), bytes_of(pieces[i].count, dtype), keep));
  }
  sends.wait();
}

void dissemination_barrier(Channel& channel) {
  const int n = channel.size(), rank = channel.rank();
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = (rank + distance) % n, from = (rank - distance + n) % n;
    const auto sent = channel.send(to, nullptr, 0, {});
    const auto received = channel.receive(from, nullptr, 0, {});
    channel.wait(*received, from);
    channel.wait(*sent, to);
  }
}

}  // namespace coeus::comm
