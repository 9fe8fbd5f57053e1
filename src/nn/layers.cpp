#include <coeus/nn/layers.h>

#include "core/torch.h"
#include "nn/ops/ops.h"

namespace coeus::nn {

Embedding::Embedding(std::int64_t vocab_size, std::int64_t dim)
    : weight_(parameter("weight", {vocab_size, dim}, init::normal(0.02), GradSource::target)) {}
Tensor Embedding::forward(const Tensor& tokens_BT) {
  return ops::embedding(tokens_BT, weight_);
}

RmsNorm::RmsNorm(std::int64_t dim, double eps)
    : weight_(parameter("weight", {dim}, init::ones(), GradSource::target)), eps_(eps) {}
Tensor RmsNorm::forward(const Tensor& x) {
  return ops::rms_norm(x, weight_, eps_);
}

SwiGlu::SwiGlu(std::int64_t dim, std::int64_t ffn_dim, double down_std)
    : gate_up_(child<Linear>("gate_up", dim,
                             std::vector<Stack>{{"gate_proj", ffn_dim}, {"up_proj", ffn_dim}})),
      down_proj_(child<Linear>("down_proj", ffn_dim, dim, down_std)) {}
Tensor SwiGlu::forward(const Tensor& x_BTD) {
  return down_proj_(ops::swiglu(gate_up_(x_BTD)));
}

LmHead::LmHead(std::int64_t dim, std::int64_t vocab_size)
    : weight_(parameter("weight", {vocab_size, dim}, init::normal(0.02), GradSource::target)),
      loss_(seam<HeadLoss, DenseHeadLoss>("loss")) {}

Tensor LmHead::forward(const Tensor& x_BTD, const Batch& batch) {
  if (!batch.labels.defined()) return ops::linear(x_BTD, weight_, dense_gemm());
  return loss_(x_BTD.reshape({-1, x_BTD.size(-1)}), batch.labels.reshape(-1), &weight_,
               batch.loss_scale);
}

Tensor DenseHeadLoss::forward(const Tensor& x_NI, const Tensor& labels_N, const Parameter* weight,
                              const Tensor& loss_scale) {
  return ops::linear_cross_entropy(x_NI, labels_N, *weight, loss_scale);
}

}  // namespace coeus::nn
