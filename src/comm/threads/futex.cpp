#include "comm/threads/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace coeus::comm {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::optional<Clock::time_point> deadline) {
  timespec until{};
  if (deadline) {
    const auto ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count();
    until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  }
  // WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock reads.
  const long rc = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
                          deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return !(rc == -1 && errno == ETIMEDOUT);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  futex_wake(word, INT_MAX);
}

}  // namespace coeus::comm
