#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace coeus::comm {

using Clock = std::chrono::steady_clock;

// Sleeps while word == expected; may return early. False once the deadline has passed.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::optional<Clock::time_point> deadline);
void futex_wake(std::atomic<std::uint32_t>& word, int count);
void futex_wake_all(std::atomic<std::uint32_t>& word);

}  // namespace coeus::comm
