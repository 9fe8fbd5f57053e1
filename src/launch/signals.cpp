#include "launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"

namespace coeus::launch {

SignalReader::SignalReader() {
  sigset_t wanted, blocked;
  sigemptyset(&wanted);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (signal == SIGCHLD || action.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
  }
  blocked = wanted;
  sigaddset(&blocked, SIGPIPE);
  sigprocmask(SIG_BLOCK, &blocked, &before_);
  fd_ = files::Descriptor(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw FileError(fmt::format("signalfd: {}", std::strerror(errno)));
}

SignalReader::~SignalReader() {
  // What is still pending must not strike when the mask is lifted.
  read();
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  const timespec now{};
  if (!sigismember(&before_, SIGPIPE)) sigtimedwait(&pipe, nullptr, &now);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> SignalReader::read() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info)
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace coeus::launch
