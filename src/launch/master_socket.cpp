#include "launch/master_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "base/error.h"

namespace coeus::launch {
namespace {

// Every address on several nodes (IPv6 sockets take IPv4 peers too), the loopback on one.
bool try_bind(int family, bool everywhere, int port, MasterSocket& socket_out) {
  files::Descriptor fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return false;
  const int on = 1, off = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t length = 0;
  if (family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto& in6 = reinterpret_cast<sockaddr_in6&>(address);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    in6.sin6_addr = in6addr_any;
    length = sizeof in6;
  } else {
    auto& in4 = reinterpret_cast<sockaddr_in&>(address);
    in4.sin_family = AF_INET;
    in4.sin_port = htons(port);
    in4.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
    length = sizeof in4;
  }
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return false;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  socket_out.port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
  socket_out.fd = std::move(fd);
  return true;
}

}  // namespace

MasterSocket bind_master(const LaunchOptions& options) {
  MasterSocket bound;
  const bool everywhere = options.num_nodes > 1 || options.master_address != "127.0.0.1";
  if (everywhere && try_bind(AF_INET6, true, options.master_port, bound)) return bound;
  if (try_bind(AF_INET, everywhere, options.master_port, bound)) return bound;
  throw CommError(fmt::format("master port {} on {}: {}", options.master_port,
                              options.master_address, std::strerror(errno)));
}

}  // namespace coeus::launch
