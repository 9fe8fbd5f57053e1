#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>

namespace coeus {
namespace {

using Clock = std::chrono::steady_clock;

std::string amount(double value) {
  const char* suffixes[] = {"", " K", " M", " G", " T"};
  int i = 0;
  for (; value >= 10000 && i < 4; ++i) value /= 1000;
  return fmt::format("{:.{}f}{}", value, i == 0 ? 0 : 1, suffixes[i]);
}

void write_stderr(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string bar(double fraction) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(fraction * kWidth);
  return "[" + std::string(filled, '=') + std::string(kWidth - filled, ' ') + "]";
}

}  // namespace

struct Progress::State {
  std::string title, unit;
  std::uint64_t total;
  bool terminal = isatty(STDERR_FILENO) == 1;
  Clock::time_point start = Clock::now();
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::int64_t> next_print;  // since start
  std::mutex printing;
  std::atomic<bool> finished{false};

  std::int64_t interval() const {
    return std::chrono::nanoseconds(terminal ? std::chrono::milliseconds(100)
                                             : std::chrono::milliseconds(10000))
        .count();
  }
  std::int64_t elapsed() const { return (Clock::now() - start).count(); }

  void print() {
    const double now = static_cast<double>(done.load());
    const double fraction = total == 0 ? 1.0 : std::min(1.0, now / static_cast<double>(total));
    const double seconds = std::max(1e-9, static_cast<double>(elapsed()) * 1e-9);
    const std::string text =
        fmt::format("{} {}{:3.0f}% {} of {} {} ({} {}/s)", title,
                    terminal ? bar(fraction) + " " : "", 100 * fraction, amount(now),
                    amount(static_cast<double>(total)), unit, amount(now / seconds), unit);
    const std::string line = terminal ? "\r\x1b[K" + text : text + "\n";
    write_stderr(line);
  }
};

Progress::Progress(std::string title, std::uint64_t total, std::string unit)
    : state_(std::make_unique<State>()) {
  state_->title = std::move(title);
  state_->unit = std::move(unit);
  state_->total = total;
  state_->next_print = state_->interval();
}

Progress::~Progress() {
  finish();
}

void Progress::set(std::uint64_t done) {
  State& s = *state_;
  s.done = done;
  const std::int64_t now = s.elapsed();
  std::int64_t due = s.next_print;
  if (now < due || !s.next_print.compare_exchange_strong(due, now + s.interval())) return;
  const std::lock_guard lock(s.printing);
  if (!s.finished) s.print();
}

void Progress::finish() {
  State& s = *state_;
  const std::lock_guard lock(s.printing);
  if (s.finished.exchange(true)) return;
  s.print();
  if (s.terminal) write_stderr("\n");
}

}  // namespace coeus
