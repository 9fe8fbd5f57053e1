#include "comm/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

constexpr std::int64_t kBlock = 2048;

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, at::BFloat16>, float, T>;

template <class A, class T>
void combine(ReduceOp op, A* __restrict acc, const T* __restrict in, std::int64_t count) {
  // `a != a`: a NaN of any rank must reach the result, or guards would miss it.
  if (op == ReduceOp::sum) {
    for (std::int64_t i = 0; i < count; ++i) acc[i] += static_cast<A>(in[i]);
  } else if (op == ReduceOp::max) {
    for (std::int64_t i = 0; i < count; ++i) {
      const A b = static_cast<A>(in[i]);
      acc[i] = acc[i] != acc[i] || acc[i] > b ? acc[i] : b;
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      const A b = static_cast<A>(in[i]);
      acc[i] = acc[i] != acc[i] || acc[i] < b ? acc[i] : b;
    }
  }
}

template <class To, class From>
void convert(To* __restrict to, const From* __restrict from, std::int64_t count) {
  if constexpr (std::is_same_v<To, From>) {
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  }
}

template <class T>
void reduce_ranks_of(ReduceOp op, std::span<const void* const> inputs,
                     std::span<void* const> outputs, std::int64_t count) {
  std::array<Accumulator<T>, kBlock> acc;
  std::array<T, kBlock> rounded;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    convert(acc.data(), static_cast<const T*>(inputs[0]) + begin, n);
    for (const void* input : inputs.subspan(1)) {
      combine(op, acc.data(), static_cast<const T*>(input) + begin, n);
    }
    convert(rounded.data(), acc.data(), n);
    for (void* output : outputs) convert(static_cast<T*>(output) + begin, rounded.data(), n);
  }
}

// Calls f with a value of the C++ type of `dtype`.
template <class F>
void with_type(at::ScalarType dtype, F&& f) {
  switch (dtype) {
    case at::ScalarType::Float:
      return f(float{});
    case at::ScalarType::BFloat16:
      return f(at::BFloat16{});
    case at::ScalarType::Double:
      return f(double{});
    case at::ScalarType::Int:
      return f(std::int32_t{});
    case at::ScalarType::Long:
      return f(std::int64_t{});
    case at::ScalarType::Byte:
      return f(std::uint8_t{});
    default:
      COEUS_ASSERT(false, "{} cannot be reduced", c10::toString(dtype));
  }
}

}  // namespace

bool can_reduce(at::ScalarType dtype) {
  using S = at::ScalarType;
  return dtype == S::Float || dtype == S::BFloat16 || dtype == S::Double || dtype == S::Int ||
         dtype == S::Long || dtype == S::Byte;
}

void reduce_ranks(at::ScalarType dtype, ReduceOp op, std::span<const void* const> inputs,
                  std::span<void* const> outputs, std::int64_t count) {
  with_type(dtype, [&]<class T>(T) { reduce_ranks_of<T>(op, inputs, outputs, count); });
}

at::ScalarType accumulation_dtype(at::ScalarType dtype) {
  return dtype == at::ScalarType::BFloat16 ? at::ScalarType::Float : dtype;
}

void accumulate(at::ScalarType dtype, ReduceOp op, void* accumulator, const void* input,
                std::int64_t count) {
  with_type(dtype, [&]<class T>(T) {
    combine(op, static_cast<Accumulator<T>*>(accumulator), static_cast<const T*>(input), count);
  });
}

void widen(at::ScalarType dtype, void* accumulator, const void* input, std::int64_t count) {
  with_type(dtype, [&]<class T>(T) {
    convert(static_cast<Accumulator<T>*>(accumulator), static_cast<const T*>(input), count);
  });
}

void narrow(at::ScalarType dtype, void* output, const void* accumulator, std::int64_t count) {
  with_type(dtype, [&]<class T>(T) {
    convert(static_cast<T*>(output), static_cast<const Accumulator<T>*>(accumulator), count);
  });
}

}  // namespace coeus::comm
