#pragma once
#include <coeus/nn/layer.h>

#include <functional>
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
// Like `inner`, but hands each weight gradient to `defer`, to be formed when that calls it: outside
// backward, on the same operands.
std::shared_ptr<Gemm> deferred_gemm(std::shared_ptr<Gemm> inner,
                                    std::function<void(std::function<void()>)> defer);
std::shared_ptr<Gemm> fp32_gemm();  // w and y are fp32, x of any float dtype is widened (routers)

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
  const std::shared_ptr<Gemm>& gemm() const { return gemm_; }
  // Forms its input again in backward where that is cheap (a norm's or SwiGLU's result), instead of
  // keeping it.
  void recompute_input() { recompute_input_ = true; }
  Parameter& weight() { return weight_; }

 private:
  Tensor forward(const Tensor& x) override;  // [..., in] -> [..., out]
  Parameter& weight_;
  std::shared_ptr<Gemm> gemm_ = dense_gemm();
  bool recompute_input_ = false;
};

}  // namespace coeus::nn
