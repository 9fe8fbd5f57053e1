#include <coeus/nn/moe.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "core/torch.h"
#include "nn/moe/permute.h"
#include "nn/ops/ops.h"

namespace coeus::nn {
namespace {

// Positions of the k largest of the last dim, best first; of equal ones the lowest comes first.
Tensor largest(const Tensor& values, std::int64_t k) {
  return at::argsort(values, /*stable=*/true, /*dim=*/-1, /*descending=*/true).narrow(-1, 0, k);
}

// −inf where an expert's group [G] is not among the best `kept`.
Tensor limit_groups(const Tensor& scores_NE, std::int64_t num_groups, std::int64_t kept) {
  const auto per_group = scores_NE.size(-1) / num_groups;
  const Tensor grouped = scores_NE.unflatten(-1, {num_groups, per_group});
  const Tensor best_two = std::get<0>(grouped.sort(-1, /*descending=*/true))
                              .narrow(-1, 0, std::min<std::int64_t>(2, per_group))
                              .sum(-1);
  const Tensor barred = at::ones(best_two.sizes(), best_two.options().dtype(at::kBool))
                            .scatter_(-1, largest(best_two, kept), false);
  return grouped.masked_fill(barred.unsqueeze(-1), -std::numeric_limits<float>::infinity())
      .flatten(-2);
}

}  // namespace

Router::Router(std::int64_t dim, const MoeOptions& options)
    : options_(options),
      weight_(parameter(
          "weight",
          std::make_unique<Parameter>(
              std::vector<std::int64_t>{options.num_experts, dim},
              std::vector<Segment>{{"weight", {options.num_experts, dim}, init::normal(0.02), {}}},
              ComputeType::fp32, GradSource::target))),
      gemm_(fp32_gemm()) {
  const auto& o = options_;
  COEUS_ASSERT(o.top_k >= 1 && o.top_k <= o.num_experts, "{} of {} experts", o.top_k,
               o.num_experts);
  COEUS_ASSERT(o.num_groups >= 1 && o.num_experts % o.num_groups == 0, "{} experts in {} groups",
               o.num_experts, o.num_groups);
  COEUS_ASSERT(o.num_limited_groups >= 1 && o.num_limited_groups <= o.num_groups &&
                   o.num_limited_groups * (o.num_experts / o.num_groups) >= o.top_k,
               "{} of {} groups cannot give {} experts", o.num_limited_groups, o.num_groups,
               o.top_k);
  if (o.bias_balancing) bias_ = &buffer("bias", {o.num_experts});
}

Routing Router::forward(const Tensor& x_BTD, const Batch& batch) {
  const Tensor logits = ops::linear(x_BTD, weight_, gemm_);
  Routing r;
  r.scores = options_.score == RouterScore::softmax ? logits.softmax(-1) : logits.sigmoid();
  {
    at::NoGradGuard no_grad;
    r.indices = choose(r.scores);
    if (batch.labels.defined() && batch.loss_scale.defined() && !is_recompute()) count(r.indices);
  }
  r.weights = r.scores.gather(-1, r.indices);
  if (options_.normalize_weights) r.weights = r.weights / (r.weights.sum(-1, true) + 1e-20);
  if (options_.route_scale != 1.0) r.weights = r.weights * options_.route_scale;
  return r;
}

// The bias steers the choice alone: weights are made of the scores.
Tensor Router::choose(const Tensor& scores) const {
  Tensor s = bias_ != nullptr ? scores + *bias_ : scores;
  if (options_.num_limited_groups < options_.num_groups)
    s = limit_groups(s, options_.num_groups, options_.num_limited_groups);
  return largest(s, options_.top_k).contiguous();
}

void Router::count(const Tensor& indices) {
  step_counts()[0].add_(ops::tokens_per_expert(indices.reshape({1, -1}), options_.num_experts)[0]);
}

std::vector<Tensor> Router::step_counts() {
  if (!counts_.defined()) {
    counts_ = at::zeros({options_.num_experts},
                        at::TensorOptions().device(weight_.device()).dtype(at::kLong));
  }
  return {counts_};
}

// bias += speed · sign(mean − count), decided in integers.
void Router::end_of_step(const Tensor& applied) {
  at::NoGradGuard no_grad;
  const Tensor counts = step_counts()[0];
  if (bias_ != nullptr) {
    const Tensor below_mean = (counts.sum() - counts * options_.num_experts).sign();
    bias_->add_(below_mean.to(at::kFloat).mul_(applied), options_.bias_update_speed);
  }
  if (!last_counts_.defined()) last_counts_ = at::empty_like(counts);
  last_counts_.copy_(counts);
  counts.zero_();
}

Router::Load Router::load() const {
  if (!last_counts_.defined()) return {};
  const Tensor counts = last_counts_.cpu();
  return {static_cast<double>(counts.sum().item<std::int64_t>()) /
              static_cast<double>(options_.num_experts),
          static_cast<double>(counts.max().item<std::int64_t>())};
}

}  // namespace coeus::nn
