#include <coeus/nn/linear.h>

#include "core/torch.h"

namespace coeus::nn {
namespace {

// libtorch's matmul. On CPU a bf16 product is formed in fp32 and rounded once: bf16 GEMMs are two
// orders slower there.
class DenseGemm : public Gemm {
 public:
  Tensor forward(const Tensor& x_NI, const Tensor& w_OI) override {
    return product(x_NI, w_OI.t());
  }
  Tensor input_gradient(const Tensor& dy_NO, const Tensor& w_OI) override {
    return product(dy_NO, w_OI);
  }
  void weight_gradient(const Tensor& dy_NO, const Tensor& x_NI, GradTarget& target) override {
    target.accumulate_outer(dy_NO, x_NI);
  }

 private:
  static Tensor product(const Tensor& a, const Tensor& b) {
    if (a.is_cuda() || a.scalar_type() == at::kFloat) return at::mm(a, b);
    return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(a.scalar_type());
  }
};

}  // namespace

std::shared_ptr<Gemm> dense_gemm() {
  return std::make_shared<DenseGemm>();
}

}  // namespace coeus::nn
