#pragma once
#include <coeus/nn/layer.h>

#include <memory>
#include <string>
#include <vector>

namespace coeus::nn {

// The three matrix products of a linear layer. One implementation a file in nn/gemm.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual Tensor forward(const Tensor& x_NI, const Tensor& w_OI) = 0;          // [N, O]
  virtual Tensor input_gradient(const Tensor& dy_NO, const Tensor& w_OI) = 0;  // [N, I]
  virtual void weight_gradient(const Tensor& dy_NO, const Tensor& x_NI,
                               GradTarget& target) = 0;  // += dyᵀ·x
};
std::shared_ptr<Gemm> dense_gemm();

// One output stack of a fused Linear: a tensor of its own in the file.
struct Stack {
  std::string name;  // sibling name, e.g. "q_proj"
  std::int64_t out;
  std::int64_t num_heads = 0;  // that `out` consists of; 0: not made of heads
};

// y = x·Wᵀ, no bias. W [out, in].
class Linear : public SimpleLayer {
 public:
  // `heads`: those that W's rows or columns consist of, where they do.
  Linear(std::int64_t in, std::int64_t out, double init_std = 0.02, const Heads& heads = {});
  Linear(std::int64_t in, const std::vector<Stack>& stacks, double init_std = 0.02);
  void set_gemm(std::shared_ptr<Gemm> gemm) { gemm_ = std::move(gemm); }
  Parameter& weight() { return weight_; }

 private:
  Tensor forward(const Tensor& x) override;  // [..., in] -> [..., out]
  Parameter& weight_;
  std::shared_ptr<Gemm> gemm_ = dense_gemm();
};

}  // namespace coeus::nn
