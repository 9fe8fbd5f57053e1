#include <coeus/nn/linear.h>

#include "core/torch.h"

namespace coeus::nn {
namespace {

class Fp32Gemm : public Gemm {
 public:
  Tensor forward(const Tensor& x_NI, const Tensor& w_OI) override {
    return at::mm(x_NI.to(at::kFloat), w_OI.t());
  }
  Tensor input_gradient(const Tensor& dy_NO, const Tensor& w_OI) override {
    return at::mm(dy_NO, w_OI);  // fp32; autograd rounds it to the dtype of x
  }
  void weight_gradient(const Tensor& dy_NO, const Tensor& x_NI, GradTarget& target) override {
    target.accumulate_outer(dy_NO, x_NI.to(at::kFloat));
  }
};

}  // namespace

std::shared_ptr<Gemm> fp32_gemm() {
  return std::make_shared<Fp32Gemm>();
}

}  // namespace coeus::nn
