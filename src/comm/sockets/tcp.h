#pragma once
#include <string>

#include "base/unique_handle.h"

namespace coeus::comm {

void close_fd(int fd);
using Fd = UniqueHandle<int, close_fd, -1>;

struct Address {
  std::string host;
  int port = 0;
};

// The numeric address by which this machine reaches `target`.
std::string address_towards(const Address& target);
// A non-blocking listening socket on `host` (empty: any address) and a free port.
struct Listener {
  Fd fd;
  int port = 0;
};
Listener open_listener(const std::string& host);
// Starts to connect, without waiting. Throws CommError.
Fd start_connect(const Address& target);
Fd accept_connection(int listener);  // empty where none is waiting

}  // namespace coeus::comm
