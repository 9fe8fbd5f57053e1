#include "comm/sockets/tcp.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace coeus::comm {
namespace {

constexpr int kBacklog = 4096;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, FreeAddresses> resolve(const Address& target, int socket_type) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = socket_type;
  const std::string port = std::to_string(target.port);
  if (const int rc = getaddrinfo(target.host.c_str(), port.c_str(), &hints, &list); rc != 0) {
    throw CommError(fmt::format("cannot resolve {}: {}", target.host, gai_strerror(rc)));
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(list);
}

[[noreturn]] void throw_errno(const std::string& what) {
  throw CommError(fmt::format("{}: {}", what, std::strerror(errno)));
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

void close_fd(int fd) {
  ::close(fd);
}

std::string address_towards(const Address& target) {
  const auto list = resolve(target, SOCK_DGRAM);
  const Fd fd(socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char host[NI_MAXHOST];
  // Connecting a datagram socket sends nothing: it only picks the route.
  if (!fd || connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, host, sizeof(host), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    throw_errno("cannot find the own address towards " + target.host);
  }
  return host;
}

Listener open_listener(const std::string& host) {
  const auto list = resolve({host.empty() ? "0.0.0.0" : host, 0}, SOCK_STREAM);
  Fd fd(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char port[NI_MAXSERV];
  if (!fd || bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(fd.get(), kBacklog) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, nullptr, 0, port, sizeof(port),
                  NI_NUMERICSERV) != 0) {
    throw_errno("cannot listen on " + host);
  }
  return {std::move(fd), std::stoi(port)};
}

Fd start_connect(const Address& target) {
  const auto list = resolve(target, SOCK_STREAM);
  Fd fd(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw_errno("cannot open a socket");
  set_no_delay(fd.get());
  if (connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    throw_errno(fmt::format("cannot connect to {}:{}", target.host, target.port));
  }
  return fd;
}

Fd accept_connection(int listener) {
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) set_no_delay(fd.get());
  return fd;
}

}  // namespace coeus::comm
