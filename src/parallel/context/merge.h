#pragma once
#include "nn/attention/block.h"

namespace coeus::parallel {

// The results of some queries over blocks of keys, put together in fp32: outputs are weighted by
// exp(lse − lse of all).
class Merge {
 public:
  Merge(const Tensor& q_BTHK, std::int64_t v_head_dim);
  // Queries [row, row + rows of `part`) over keys not seen before.
  void add(std::int64_t row, const nn::AttentionOut& part);
  const Tensor& out() const { return out_BTHV_; }
  const Tensor& lse() const { return lse_BHT_; }

 private:
  Tensor out_BTHV_, lse_BHT_;
};

}  // namespace coeus::parallel
