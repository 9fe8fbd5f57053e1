#pragma once
#include <coeus/nn/layer.h>
#include <coeus/nn/linear.h>

#include <cstdint>

namespace coeus::nn {

// Rows of W [vocabulary, dim] by token id. [B, T] int64 -> [B, T, dim].
class Embedding : public SimpleLayer {
 public:
  Embedding(std::int64_t vocab_size, std::int64_t dim);
  bool backward_reads_weights() const override { return false; }

 private:
  Tensor forward(const Tensor& tokens_BT) override;
  Parameter& weight_;
};

// x / sqrt(mean(x²) + eps) · w, statistics in fp32. https://arxiv.org/abs/1910.07467
class RmsNorm : public SimpleLayer {
 public:
  explicit RmsNorm(std::int64_t dim, double eps = 1e-5);

 private:
  Tensor forward(const Tensor& x) override;
  Parameter& weight_;
  double eps_;
};

// down(silu(gate(x)) · up(x)). https://arxiv.org/abs/2002.05202
class SwiGlu : public SimpleLayer {
 public:
  SwiGlu(std::int64_t dim, std::int64_t ffn_dim, double down_std = 0.02);

 private:
  Tensor forward(const Tensor& x_BTD) override;
  Linear& gate_up_;
  Linear& down_proj_;
};

// Rows x [N, dim], labels [N], the head's weight, loss_scale -> the loss sum, [] fp32. A style may
// replace it.
using HeadLoss = LayerOf<Tensor(const Tensor&, const Tensor&, const Parameter*, const Tensor&)>;
class DenseHeadLoss : public HeadLoss {
  Tensor forward(const Tensor& x_NI, const Tensor& labels_N, const Parameter* weight,
                 const Tensor& loss_scale) override;
};

// The last layer of a chain. With labels: the sum of cross-entropies over valid tokens, [] fp32, in
// chunks that never hold all logits; while gradients are formed it writes dW and dX in forward,
// scaled by batch.loss_scale, and accepts no upstream gradient but 1; that is its child "loss".
// Without labels: logits [B, T, vocabulary].
class LmHead : public Layer {
 public:
  LmHead(std::int64_t dim, std::int64_t vocab_size);
  bool backward_reads_weights() const override { return false; }
  bool forms_gradients_in_forward() const override { return true; }

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override;
  Parameter& weight_;
  Seam<HeadLoss> loss_;
};

// y, while `aux` is added to the loss: an identity whose backward feeds aux with 1. Works on any
// pipeline stage.
Tensor add_loss(const Tensor& y, const Tensor& aux);

}  // namespace coeus::nn
