#include "checkpoint/convert.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace coeus::checkpoint {
namespace {

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

float from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {  // subnormal: mantissa · 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;  // NaN: rounding could make it infinite
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

template <class From, class Load, class To, class Store>
void convert_each(std::span<const std::byte> source, Load load, std::span<std::byte> target,
                  Store store) {
  const std::size_t count = source.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, source.data() + i * sizeof(From), sizeof(From));
    const To to = store(load(from));
    std::memcpy(target.data() + i * sizeof(To), &to, sizeof(To));
  }
}

template <class From, class Load>
void convert_from(std::span<const std::byte> source, Load load, DType to,
                  std::span<std::byte> target) {
  if (to == DType::F32) {
    convert_each<From, Load, float>(source, load, target, [](float x) { return x; });
  } else {
    convert_each<From, Load, std::uint16_t>(source, load, target, to_bf16);
  }
}

}  // namespace

bool can_convert(DType from, DType to) {
  return (from == DType::F32 || from == DType::BF16 || from == DType::F16) &&
         (to == DType::F32 || to == DType::BF16);
}

void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target) {
  COEUS_ASSERT(can_convert(from, to) && source.size() / static_cast<std::size_t>(size_of(from)) ==
                                            target.size() / static_cast<std::size_t>(size_of(to)));
  if (from == to) {
    std::memcpy(target.data(), source.data(), source.size());
  } else if (from == DType::F32) {
    convert_from<float>(
        source, [](float x) { return x; }, to, target);
  } else if (from == DType::BF16) {
    convert_from<std::uint16_t>(source, from_bf16, to, target);
  } else {
    convert_from<std::uint16_t>(source, from_f16, to, target);
  }
}

}  // namespace coeus::checkpoint
