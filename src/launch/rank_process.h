#pragma once
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace coeus::launch {

struct SpawnOptions {
  std::vector<std::string> program, environment;
  int in = -1, out = -1, err = -1;  // become 0, 1, 2; -1: inherited
  int inherited_fd = -1;            // stays open in the child
  sigset_t signal_mask;             // the child's
};

// A child in a session of its own that dies with this process (PR_SET_PDEATHSIG).
class RankProcess {
 public:
  // Throws UsageError where the program cannot be run.
  explicit RankProcess(const SpawnOptions& options);
  RankProcess(RankProcess&& other) noexcept;
  ~RankProcess();  // ends and reaps what still runs

  pid_t pid() const { return pid_; }
  bool is_running() const { return !status_; }
  // Its whole session: what it started, too.
  void send(int signal) const;
  // Reaps it if it has left, ending what it left behind; true when it left just now.
  bool poll();
  // What it left with, 128+n for signal n.
  int exit_code() const;
  std::optional<int> death_signal() const;

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace coeus::launch
