#include "tests/comm/processes.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/comm/check.h"

namespace coeus::comm::testing {
namespace {

struct Listener {
  int fd = -1, port = 0;
};

Listener listen_anywhere() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  CHECK_THAT(bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(fd, 128) == 0);
  CHECK_THAT(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return {fd, ntohs(address.sin_port)};
}

struct Child {
  pid_t pid;
  int report;  // the read end of its pipe
};

[[noreturn]] void run_child(const World& world, const std::function<void(const World&)>& body,
                            int report) {
  int code = 0;
  try {
    body(world);
  } catch (const std::exception& e) {
    const std::string text = e.what();
    code = write(report, text.data(), text.size()) >= 0 ? 1 : 2;
  }
  _exit(code);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  return text;
}

}  // namespace

void run_processes(int size, const std::function<void(const World&)>& body) {
  const Listener listener = listen_anywhere();
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) {
    int pipe_fds[2];
    CHECK_THAT(pipe(pipe_fds) == 0);
    const pid_t pid = fork();
    CHECK_THAT(pid >= 0);
    if (pid == 0) {
      for (const Child& other : children) close(other.report);
      close(pipe_fds[0]);
      if (rank > 0) close(listener.fd);
      World world{.rank = rank,
                  .size = size,
                  .local_rank = rank,
                  .local_size = size,
                  .master_port = listener.port,
                  .listen_fd = rank == 0 ? listener.fd : -1};
      world.source = "flags";
      run_child(world, body, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    children.push_back({pid, pipe_fds[0]});
  }
  close(listener.fd);

  std::string failures;
  for (int rank = 0; rank < size; ++rank) {
    const Child& child = children[static_cast<std::size_t>(rank)];
    const std::string text = read_all(child.report);
    int status = 0;
    waitpid(child.pid, &status, 0);
    if (status == 0) continue;
    failures +=
        fmt::format("[rank {}] {}\n", rank,
                    WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : text);
  }
  if (!failures.empty()) throw std::runtime_error(failures);
}

}  // namespace coeus::comm::testing
