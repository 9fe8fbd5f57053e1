#include <coeus/nn/moe.h>

#include "core/torch.h"
#include "nn/moe/permute.h"

namespace coeus::nn {

// Shapes: B sequences, T tokens here, D the model's size, N = B·T, E experts.

Moe::Moe(std::int64_t dim, const MoeOptions& options)
    : options_(options),
      router_(child<Router>("router", dim, options)),
      experts_(child<Experts>("experts", dim, options)),
      dispatch_(seam<MoeDispatch, LocalDispatch>("dispatch", options.num_experts)),
      counts_(seam<MoeCounts, LocalCounts>("counts")) {
  if (options.shared_ffn_dim > 0)
    shared_ = &child<SwiGlu>("shared", dim, options.shared_ffn_dim, options.down_std);
}

Tensor Moe::forward(const Tensor& x_BTD, const Batch& batch) {
  const Routing routing = router_(x_BTD, batch);
  const ExpertRows experts = [this](const Tensor& rows, const std::vector<std::int64_t>& counts) {
    return experts_(rows, counts);
  };
  Tensor y = dispatch_(x_BTD.flatten(0, 1), routing.indices.flatten(0, 1),
                       routing.weights.flatten(0, 1), experts)
                 .view(x_BTD.sizes());
  if (shared_ != nullptr) y = y + (*shared_)(x_BTD);
  if (options_.aux_loss_alpha != 0 && at::GradMode::is_enabled())
    y = add_loss(y, auxiliary_loss(routing, batch));
  return y;
}

// This rank's part: it is linear in p, and count_e is of the whole sequence.
Tensor Moe::auxiliary_loss(const Routing& routing, const Batch& batch) {
  const auto B = routing.scores.size(0), E = routing.scores.size(2);
  const auto T = batch.sequence_length > 0 ? batch.sequence_length : routing.scores.size(1);
  const auto sequences = batch.step_sequences > 0 ? batch.step_sequences : B;
  const double scale = options_.aux_loss_alpha * static_cast<double>(E) /
                       (static_cast<double>(options_.top_k) * static_cast<double>(T) *
                        static_cast<double>(T) * static_cast<double>(sequences));
  Tensor count_BE;
  {
    at::NoGradGuard no_grad;
    count_BE = counts_(ops::tokens_per_expert(routing.indices.flatten(1), E));
    count_BE = count_BE.to(at::kDouble).mul_(scale).to(at::kFloat);
  }
  Tensor p_BTE = routing.scores;
  if (options_.score == RouterScore::sigmoid) p_BTE = p_BTE / p_BTE.sum(-1, true);
  return (p_BTE.sum(1) * count_BE).sum();
}

}  // namespace coeus::nn
