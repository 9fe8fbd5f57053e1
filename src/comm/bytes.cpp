#include <algorithm>
#include <cstring>

#include "comm/connect.h"
#include "core/torch.h"

namespace coeus::comm {

// Every rank sends as many bytes as the longest has: lengths first, then one padded gather.
std::vector<std::string> all_gather_bytes(Communicator& host, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(host.size());
  const Tensor length = at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong);
  const Tensor lengths = at::empty({host.size()}, at::kLong);
  host.all_gather(lengths, length, {.label = "lengths of bytes"}).wait();
  const std::int64_t* sizes = lengths.const_data_ptr<std::int64_t>();
  const std::int64_t longest = *std::max_element(sizes, sizes + ranks);

  const Tensor sent = at::zeros({longest}, at::kByte);
  std::memcpy(sent.data_ptr(), mine.data(), mine.size());
  const Tensor received = at::empty({host.size() * longest}, at::kByte);
  host.all_gather(received, sent, {.label = "bytes"}).wait();
  const auto* data = static_cast<const char*>(received.const_data_ptr());
  std::vector<std::string> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    all.emplace_back(data + static_cast<std::int64_t>(r) * longest,
                     static_cast<std::size_t>(sizes[r]));
  }
  return all;
}

std::string broadcast_bytes(Communicator& host, const std::string& bytes, int root) {
  const Tensor length = at::full({1}, static_cast<std::int64_t>(bytes.size()), at::kLong);
  host.broadcast(length, root, {.label = "length of bytes"}).wait();
  const Tensor buffer = at::empty({length.item<std::int64_t>()}, at::kByte);
  if (host.rank() == root) std::memcpy(buffer.data_ptr(), bytes.data(), bytes.size());
  host.broadcast(buffer, root, {.label = "bytes"}).wait();
  return {static_cast<const char*>(buffer.const_data_ptr()), buffer.nbytes()};
}

}  // namespace coeus::comm
