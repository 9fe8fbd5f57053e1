#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "launch/launcher.h"
#include "launch/rank_output.h"
#include "launch/rank_process.h"
#include "launch/signals.h"

namespace coeus::launch {

struct LocalRank {
  int rank = 0;
  RankProcess process;
  std::unique_ptr<RankOutput> output;  // null: inherited
};

// Watches started ranks until all have left, and says what the launcher returns.
class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, std::vector<LocalRank> ranks, SignalReader& signals)
      : options_(options), ranks_(std::move(ranks)), signals_(signals) {}
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_running() const;
  void wait();
  void handle(int signal);
  void reap();
  void judge(std::size_t index);
  void keep_deadlines();
  void stop_others(double seconds);
  void send(int signal);
  void say(const std::string& line) const;
  void report_cause() const;
  int result() const;

  const LaunchOptions& options_;
  std::vector<LocalRank> ranks_;
  SignalReader& signals_;
  std::optional<std::size_t> cause_;  // index of the rank whose failure is the root cause
  std::optional<Clock::time_point> stop_at_, kill_at_;
  bool terminated_ = false, killed_ = false;
  int interrupts_ = 0;
};

}  // namespace coeus::launch
