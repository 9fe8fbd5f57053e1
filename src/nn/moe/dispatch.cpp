#include <coeus/nn/moe.h>

#include "core/torch.h"
#include "nn/moe/permute.h"

namespace coeus::nn {

Tensor LocalDispatch::forward(const Tensor& x_ND, const Tensor& indices_Nk,
                              const Tensor& weights_Nk, const ExpertRows& experts) {
  const auto permutation = ops::by_expert(indices_Nk);
  const Tensor counts = ops::tokens_per_expert(indices_Nk.reshape({1, -1}), num_experts_).cpu();
  const auto* first = counts.const_data_ptr<std::int64_t>();
  const Tensor rows = experts(ops::to_experts(x_ND, permutation), {first, first + num_experts_});
  return ops::combine(rows, weights_Nk, permutation);
}

}  // namespace coeus::nn
