#pragma once
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace coeus::comm {

// Arithmetic of host collectives: float32, bfloat16, float64, int32, int64, uint8. bfloat16 is
// reduced in float32 and rounded once.
bool can_reduce(at::ScalarType dtype);

// outputs[i][0..count) = inputs[0] op inputs[1] op …, element by element in this order; an output
// may be an input.
void reduce_ranks(at::ScalarType dtype, ReduceOp op, std::span<const void* const> inputs,
                  std::span<void* const> outputs, std::int64_t count);

// What partial results are kept in: float32 for bfloat16, else the dtype itself.
at::ScalarType accumulation_dtype(at::ScalarType dtype);
// accumulator = accumulator op input; the accumulator is of accumulation_dtype(dtype).
void accumulate(at::ScalarType dtype, ReduceOp op, void* accumulator, const void* input,
                std::int64_t count);
void widen(at::ScalarType dtype, void* accumulator, const void* input, std::int64_t count);
void narrow(at::ScalarType dtype, void* output, const void* accumulator, std::int64_t count);

}  // namespace coeus::comm
