#pragma once
#include <cstdint>
#include <string_view>

#ifdef __CUDACC__
#define COEUS_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define COEUS_HOST_DEVICE inline __attribute__((always_inline))
#endif

// Random numbers are keyed, never stateful: each is a pure function of (seed, step, fqn, element
// index), the same bits on every rank, CPU and GPU. Nothing here calls libm or leaves the compiler
// a multiply and an add to contract: they are either exact or written as one fma.
namespace coeus {

// Names one stream of numbers. Initial weights are at step 0, under their segment's fqn.
struct RandomKey {
  std::uint32_t key[2], stream[2];
};

namespace random_detail {

// FNV-1a over words and bytes, finished by the mixer of splitmix64.
struct Hash {
  std::uint64_t h;
  constexpr void byte(std::uint8_t b) { h = (h ^ b) * 0x100000001b3ull; }
  constexpr void word(std::uint64_t w) {
    for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(w >> (8 * i)));
  }
  constexpr std::uint64_t finish() const {
    std::uint64_t z = h;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

constexpr int kPieceBits = 3, kOctaves = 33, kTermsPerPiece = 6;
inline constexpr double kNormalTable[][kTermsPerPiece] = {
#include "base/normal_table.inc"
};
#ifdef __CUDACC__
__device__ constexpr double kNormalTableOnDevice[][kTermsPerPiece] = {
#include "base/normal_table.inc"
};
#endif

COEUS_HOST_DEVICE double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

COEUS_HOST_DEVICE const double* normal_piece(std::uint64_t index) {
#ifdef __CUDA_ARCH__
  return kNormalTableOnDevice[index];
#else
  return kNormalTable[index];
#endif
}

COEUS_HOST_DEVICE std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
COEUS_HOST_DEVICE double from_bits(std::uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace random_detail

constexpr RandomKey make_random_key(std::uint64_t seed, std::uint64_t step, std::string_view fqn) {
  std::uint64_t words[2] = {};
  for (std::uint64_t i = 0; i < 2; ++i) {
    random_detail::Hash hash{0xcbf29ce484222325ull + i};
    hash.word(seed);
    hash.word(step);
    for (char c : fqn) hash.byte(static_cast<std::uint8_t>(c));
    words[i] = hash.finish();
  }
  return {{static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(words[0] >> 32)},
          {static_cast<std::uint32_t>(words[1]), static_cast<std::uint32_t>(words[1] >> 32)}};
}

struct RandomBlock {
  std::uint32_t word[4];
};

// Philox4x32-10, https://doi.org/10.1145/2063384.2063405.
COEUS_HOST_DEVICE RandomBlock philox4x32(RandomBlock counter, std::uint32_t key0,
                                         std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53u} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xcd9e8d57u} * counter.word[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0,
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1,
               static_cast<std::uint32_t>(a)};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

// The bits of elements 4·block to 4·block + 3.
COEUS_HOST_DEVICE RandomBlock random_block(const RandomKey& key, std::uint64_t block) {
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                     key.stream[0], key.stream[1]},
                    key.key[0], key.key[1]);
}
COEUS_HOST_DEVICE std::uint32_t random_bits(const RandomKey& key, std::uint64_t index) {
  return random_block(key, index / 4).word[index % 4];
}

// In (0, 1), exact: the middles of 2^32 equal intervals.
COEUS_HOST_DEVICE double uniform_from_bits(std::uint32_t bits) {
  return (static_cast<double>(bits) + 0.5) * 0x1p-32;
}
COEUS_HOST_DEVICE double uniform(const RandomKey& key, std::uint64_t index) {
  return uniform_from_bits(random_bits(key, index));
}

// x with Φ(x) = p, to 1e-8; tails beyond 2^-34 (6.3 deviations) count as 2^-34.
COEUS_HOST_DEVICE double inverse_normal_cdf(double p) {
  using namespace random_detail;
  const double upper = 1.0 - p;
  double tail = p < upper ? p : upper;
  tail = tail > 0x1p-34 ? tail : 0x1p-34;
  const std::uint64_t bits = bits_of(tail);
  constexpr int kShift = 52 - kPieceBits;
  const double* c = normal_piece((bits >> kShift) - (bits_of(0x1p-34) >> kShift));
  // The mantissa bits below the piece's number, as a fraction, less 1/2.
  const std::uint64_t rest = (bits << kPieceBits) & 0x000fffffffffffffull;
  const double r = from_bits(rest | 0x3ff0000000000000ull) - 1.5;
  double x = c[kTermsPerPiece - 1];
  for (int i = kTermsPerPiece - 2; i >= 0; --i) x = fused(x, r, c[i]);
  // No branch: it would be mispredicted half of the time.
  return from_bits(bits_of(x) ^ (static_cast<std::uint64_t>(p >= 0.5) << 63));
}

COEUS_HOST_DEVICE double normal(const RandomKey& key, std::uint64_t index) {
  return inverse_normal_cdf(uniform(key, index));
}

// A standard normal cut at ±3: the uniform number is mapped to [Φ(−3), Φ(3)].
COEUS_HOST_DEVICE double truncated_normal_from_bits(std::uint32_t bits) {
  constexpr double kLow = 0x1.61de1f985b5d7p-10, kWidth = 0x1.fe9e21e067a4ap-1;
  const double x = inverse_normal_cdf(random_detail::fused(uniform_from_bits(bits), kWidth, kLow));
  return x < -3.0 ? -3.0 : x > 3.0 ? 3.0 : x;
}
COEUS_HOST_DEVICE double truncated_normal(const RandomKey& key, std::uint64_t index) {
  return truncated_normal_from_bits(random_bits(key, index));
}

}  // namespace coeus
