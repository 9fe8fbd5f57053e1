#include "launch/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace coeus::launch {
namespace {

constexpr int kPeerLost = static_cast<int>(ExitCode::communication);
constexpr int kSaved = static_cast<int>(ExitCode::saved);
// How long a rank that lost a peer waits to be outdone by that peer's own exit.
constexpr auto kWitnessPatience = std::chrono::seconds(2);

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe_exit(const RankProcess& process) {
  const auto signal = process.death_signal();
  if (!signal) return fmt::format("left with {}", process.exit_code());
  return fmt::format("was killed by {}{}", signal_name(*signal),
                     *signal == SIGKILL ? " (out of memory?)" : "");
}

}  // namespace

int Supervisor::run() {
  while (is_running()) {
    wait();
    for (const int signal : signals_.read()) handle(signal);
    reap();
    for (auto& rank : ranks_)
      if (rank.output) rank.output->pump();
    keep_deadlines();
  }
  report_cause();
  return result();
}

bool Supervisor::is_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const LocalRank& rank) { return rank.process.is_running(); });
}

void Supervisor::wait() {
  std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
  for (const auto& rank : ranks_)
    if (rank.output) rank.output->add_to(polled);
  int timeout = -1;
  for (const auto& deadline : {stop_at_, kill_at_}) {
    if (!deadline) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    const int ms = static_cast<int>(std::clamp<long long>(left.count(), 0, 1'000'000));
    timeout = timeout < 0 ? ms : std::min(timeout, ms);
  }
  ::poll(polled.data(), polled.size(), timeout);
}

void Supervisor::handle(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGUSR1 || signal == SIGUSR2) return send(signal);
  if (signal == SIGINT) {
    // The first asks to stop, the second tells the ranks that it was meant, the third ends them.
    if (++interrupts_ > 2) return send(SIGKILL);
  } else if (terminated_) {
    return;  // schedulers repeat SIGTERM; to the ranks a second one would mean "at once"
  }
  const int forwarded = signal == SIGHUP ? SIGTERM : signal;
  say(fmt::format("coeus: {}: asking {} to stop", signal_name(signal),
                  ranks_.size() == 1 ? "the rank" : fmt::format("{} ranks", ranks_.size())));
  send(forwarded);
  terminated_ = true;
  if (!kill_at_)
    kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(options_.signal_stop_seconds));
}

void Supervisor::reap() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].process.poll()) continue;
    if (ranks_[i].output) ranks_[i].output->finish();
    judge(i);
  }
}

// A rank that lost a peer (5) is a witness: whoever failed on its own is the cause, even if its
// process ended later.
void Supervisor::judge(std::size_t index) {
  const int code = ranks_[index].process.exit_code();
  if (code == 0 || code == kSaved) return;
  if (!cause_) {
    cause_ = index;
    if (code == kPeerLost)
      stop_at_ = Clock::now() + kWitnessPatience;
    else
      stop_others(options_.stop_seconds);
    return;
  }
  const bool by_us = (terminated_ && (code == 128 + SIGTERM || code == 128 + SIGINT)) ||
                     (killed_ && code == 128 + SIGKILL);
  if (ranks_[*cause_].process.exit_code() != kPeerLost || code == kPeerLost || by_us) return;
  cause_ = index;
  stop_others(options_.stop_seconds);
}

void Supervisor::stop_others(double seconds) {
  stop_at_.reset();
  if (terminated_ || !is_running()) return;
  const auto& cause = ranks_[*cause_];
  say(fmt::format("coeus: rank {} {}: stopping the others", cause.rank,
                  describe_exit(cause.process)));
  send(SIGTERM);
  terminated_ = true;
  kill_at_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Supervisor::keep_deadlines() {
  const auto now = Clock::now();
  if (stop_at_ && now >= *stop_at_) stop_others(options_.stop_seconds);
  if (!kill_at_ || now < *kill_at_) return;
  kill_at_.reset();
  for (const auto& rank : ranks_)
    if (rank.process.is_running())
      say(fmt::format("coeus: rank {} did not stop when asked: SIGKILL", rank.rank));
  send(SIGKILL);
}

void Supervisor::send(int signal) {
  if (signal == SIGKILL) killed_ = true;
  for (const auto& rank : ranks_) rank.process.send(signal);
}

void Supervisor::say(const std::string& line) const {
  const std::string text = line + "\n";
  [[maybe_unused]] const auto written = ::write(options_.err, text.data(), text.size());
}

void Supervisor::report_cause() const {
  if (!cause_) return;
  const auto& cause = ranks_[*cause_];
  const bool was_seen = !cause.output || cause.output->is_shown();
  if (!was_seen)
    for (const auto& line : cause.output->last_error_lines())
      say(fmt::format("[rank{}]: {}", cause.rank, line));
  // One rank that has said why it left needs no second line.
  if (was_seen && ranks_.size() == 1 && !cause.process.death_signal()) return;
  say(fmt::format("coeus: error: rank {} {}{}", cause.rank, describe_exit(cause.process),
                  cause.output ? "; its log: " + cause.output->log_file().string() : ""));
}

int Supervisor::result() const {
  if (cause_) return ranks_[*cause_].process.exit_code();
  const auto saved = std::count_if(ranks_.begin(), ranks_.end(), [](const LocalRank& rank) {
    return rank.process.exit_code() == kSaved;
  });
  if (saved == 0) return 0;
  if (saved == static_cast<std::ptrdiff_t>(ranks_.size())) return kSaved;
  say(fmt::format("coeus: error: {} of {} ranks saved and left (75), the others finished (0)",
                  saved, ranks_.size()));
  return static_cast<int>(ExitCode::failed);
}

}  // namespace coeus::launch
