#pragma once
#include <cstdint>

#include "core/tensor.h"

// Rows from token order to expert order and back. N tokens, k slots each, E experts, M = N·k rows.
namespace coeus::nn::ops {

// Tokens of each sequence that chose each expert: [S, n] int64 expert numbers -> [S, E] int64.
Tensor tokens_per_expert(const Tensor& indices, std::int64_t num_experts);

// Which (token, slot) pair each row of the expert order comes from.
struct Permutation {
  Tensor order;    // [M] pair n·k + j of each row: by expert, then by token, then by slot
  Tensor inverse;  // [M] row of each pair
  std::int64_t k = 1;
  Permutation inverted() const;  // only for k = 1
};
Permutation by_expert(const Tensor& indices_Nk);

// x [N, D] -> [M, D] in expert order. Backward sums the k copies in slot order in fp32.
Tensor to_experts(const Tensor& x_ND, const Permutation& permutation);

// y[n] = Σ_j weights[n, j] · rows[inverse[n·k + j]] in slot order, in fp32, rounded once.
Tensor combine(const Tensor& rows_MD, const Tensor& weights_Nk, const Permutation& permutation);

}  // namespace coeus::nn::ops
