#pragma once
#include <cstddef>
#include <span>

#include "checkpoint/safetensors.h"

namespace coeus::checkpoint {

// From F32, BF16, F16 to F32, BF16.
bool can_convert(DType from, DType to);
// Rounds to nearest even. Both spans hold the same number of elements.
void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target);

}  // namespace coeus::checkpoint
