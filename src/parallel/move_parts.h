#pragma once
#include <string>

#include "comm/communicator.h"
#include "core/tensor.h"
#include "layout/placement.h"

namespace coeus::parallel {

// Redistributes x without a gradient. The layouts were checked and x is this rank's part of `from`.
// May return x's own memory.
Tensor move_parts(const Tensor& x, const TensorLayout& from, const TensorLayout& to,
                  comm::Communicator& mesh, const std::string& label);

}  // namespace coeus::parallel
