#pragma once
#include <coeus/nn/moe.h>

#include <memory>

namespace coeus::nn::ops {

// x·Wᵀ with the matrix of each row's expert; see GroupedGemm for the shapes.
Tensor grouped_linear(const Tensor& x_MI, const GroupedGemm::Counts& counts, const Parameter& w,
                      const std::shared_ptr<GroupedGemm>& gemm);

}  // namespace coeus::nn::ops
