#include <coeus/nn/moe.h>

#include "base/error.h"
#include "core/torch.h"
#include "nn/moe/grouped_linear.h"
#include "nn/ops/ops.h"

namespace coeus::nn {
namespace {

// One matrix [out, in] of each expert for each name, expert by expert.
std::unique_ptr<Parameter> expert_stack(const MoeOptions& options, std::int64_t out,
                                        std::int64_t in, const std::vector<std::string>& names,
                                        double std) {
  std::vector<Segment> segments;
  for (std::int64_t e = 0; e < options.num_experts; ++e) {
    for (const auto& name : names)
      segments.push_back({fmt::format("{}.{}.weight", e, name), {out, in}, init::normal(std), {}});
  }
  const auto rows = static_cast<std::int64_t>(segments.size()) * out;
  return std::make_unique<Parameter>(std::vector<std::int64_t>{rows, in}, std::move(segments),
                                     ComputeType::compute, GradSource::target);
}

}  // namespace

Experts::Experts(std::int64_t dim, const MoeOptions& options)
    : gate_up_(parameter("gate_up.weight", expert_stack(options, options.ffn_dim, dim,
                                                        {"gate_proj", "up_proj"}, 0.02))),
      down_proj_(parameter("down_proj.weight", expert_stack(options, dim, options.ffn_dim,
                                                            {"down_proj"}, options.down_std))) {
  COEUS_ASSERT(options.ffn_dim > 0, "an expert of size {}", options.ffn_dim);
}

Tensor Experts::forward(const Tensor& x_MD, const std::vector<std::int64_t>& counts) {
  const auto held = down_proj_.size(0) / x_MD.size(1);
  COEUS_ASSERT(static_cast<std::int64_t>(counts.size()) == held, "rows for {} experts, {} are here",
               counts.size(), held);
  const Tensor gate_up = ops::grouped_linear(x_MD, counts, gate_up_, gemm_);
  return ops::grouped_linear(ops::swiglu(gate_up), counts, down_proj_, gemm_);
}

}  // namespace coeus::nn
