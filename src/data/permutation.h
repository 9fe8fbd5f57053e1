#pragma once
#include <bit>
#include <cstdint>

namespace coeus::data {

constexpr std::uint64_t mix(std::uint64_t z) {  // the finisher of splitmix64
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Where `index` of [0, size) goes under the permutation that `key` names: a Feistel network over
// the next even number of bits, walked until it lands inside. Every index is hit once, and nothing
// is stored.
constexpr std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t key) {
  const int half = (std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t next = left ^ (mix(right ^ mix(key + round)) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

}  // namespace coeus::data
