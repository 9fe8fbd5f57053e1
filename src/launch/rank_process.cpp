#include "launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace coeus::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const auto& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// After fork, only async-signal-safe calls. Returns only if the program could not be run.
void become(const SpawnOptions& options, pid_t parent, char* const* argv, char* const* envp) {
  setsid();  // a terminal's Ctrl-C then reaches the launcher alone, which forwards it once
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);
  const int wanted[3] = {options.in, options.out, options.err};
  for (int fd = 0; fd < 3; ++fd)
    if (wanted[fd] >= 0 && dup2(wanted[fd], fd) < 0) return;
  if (options.inherited_fd >= 0) fcntl(options.inherited_fd, F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  execvpe(argv[0], argv, envp);
}

}  // namespace

RankProcess::RankProcess(const SpawnOptions& options) {
  const auto argv = pointers(options.program), envp = pointers(options.environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw FileError(fmt::format("a pipe for {}: {}", options.program[0], std::strerror(errno)));
  const files::Descriptor read_end(ends[0]);
  files::Descriptor write_end(ends[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0)
    throw FileError(fmt::format("cannot start {}: {}", options.program[0], std::strerror(errno)));
  if (pid_ == 0) {
    become(options, parent, argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const auto written = write(ends[1], &error, sizeof error);
    _exit(127);
  }
  // The pipe closes on exec; an errno in it means that there was none.
  write_end.reset();
  int error = 0;
  ssize_t n;
  while ((n = read(read_end.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n <= 0) return;
  waitpid(pid_, nullptr, 0);
  throw UsageError(fmt::format("cannot run {}: {}", options.program[0], std::strerror(error)));
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

RankProcess::~RankProcess() {
  if (pid_ < 0 || status_) return;
  send(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void RankProcess::send(int signal) const {
  if (!status_) kill(-pid_, signal);
}

bool RankProcess::poll() {
  if (status_) return false;
  siginfo_t left{};
  if (waitid(P_PID, pid_, &left, WEXITED | WNOHANG | WNOWAIT) != 0 || left.si_pid != pid_)
    return false;
  send(SIGKILL);  // before reaping: until then nobody else can own this session's id
  int status = 0;
  waitpid(pid_, &status, 0);
  status_ = status;
  return true;
}

int RankProcess::exit_code() const {
  const auto signal = death_signal();
  return signal ? 128 + *signal : WEXITSTATUS(status_.value());
}

std::optional<int> RankProcess::death_signal() const {
  const int status = status_.value();
  return WIFSIGNALED(status) ? std::optional<int>(WTERMSIG(status)) : std::nullopt;
}

}  // namespace coeus::launch
