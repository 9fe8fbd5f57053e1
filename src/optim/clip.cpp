#include "optim/clip.h"

#include "base/error.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "kernels/sum_of_squares.h"

namespace coeus::optim {

Tensor sum_of_squares(const std::vector<FlatShard>& shards) {
  COEUS_ASSERT(!shards.empty(), "a rank without shards");
  const auto options = shards.front().grad.options().dtype(at::kDouble);
  const Tensor total = at::zeros({}, options);
  const bool cuda = total.is_cuda();
  const Tensor scratch = at::empty({cuda ? kernels::kSumOfSquaresScratch : 0}, options);
  for (const auto& shard : shards) {
    COEUS_ASSERT(shard.grad.is_contiguous(), "grad of {}", shard.unit);
    for (const auto& [begin, end] : shard.counted) {
      const float* grad = shard.grad.const_data_ptr<float>() + begin;
      if (cuda) {
        kernels::sum_of_squares_cuda(grad, end - begin, scratch.data_ptr<double>(),
                                     total.data_ptr<double>(), core::native_stream(total));
      } else {
        kernels::sum_of_squares_cpu(grad, end - begin, total.data_ptr<double>());
      }
    }
  }
  return total;
}

Tensor clip_factor(const Tensor& norm, double max_norm) {
  const auto options = norm.options().dtype(at::kFloat);
  if (max_norm == 0) return at::ones({}, options);
  return at::clamp_max(max_norm / (norm.to(at::kDouble) + 1e-6), 1.0).to(at::kFloat);
}

}  // namespace coeus::optim
