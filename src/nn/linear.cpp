#include <coeus/nn/linear.h>

#include "core/torch.h"
#include "nn/ops/ops.h"

namespace coeus::nn {
namespace {

std::unique_ptr<Parameter> stacked_weight(std::int64_t in, const std::vector<Stack>& stacks,
                                          double std) {
  std::int64_t out = 0;
  std::vector<Segment> segments;
  for (const auto& s : stacks) {
    segments.push_back(
        {"../" + s.name + ".weight", {s.out, in}, init::normal(std), {.rows = s.num_heads}});
    out += s.out;
  }
  return std::make_unique<Parameter>(std::vector<std::int64_t>{out, in}, std::move(segments),
                                     ComputeType::compute, GradSource::target);
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, double init_std, const Heads& heads)
    : weight_(parameter("weight", {out, in}, init::normal(init_std), GradSource::target)) {
  weight_.segments[0].heads = heads;
}

Linear::Linear(std::int64_t in, const std::vector<Stack>& stacks, double init_std)
    : weight_(parameter("weight", stacked_weight(in, stacks, init_std))) {}

Tensor Linear::forward(const Tensor& x) {
  return ops::linear(x, weight_, gemm_,
                     recompute_input_ ? ops::KeepInput::producer : ops::KeepInput::tensor);
}

}  // namespace coeus::nn
