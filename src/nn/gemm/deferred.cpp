#include <coeus/nn/linear.h>

#include "core/torch.h"

namespace coeus::nn {
namespace {

class DeferredGemm : public Gemm {
 public:
  DeferredGemm(std::shared_ptr<Gemm> inner, std::function<void(std::function<void()>)> defer)
      : inner_(std::move(inner)), defer_(std::move(defer)) {}
  Tensor forward(const Tensor& x_NI, const Tensor& w_OI) override {
    return inner_->forward(x_NI, w_OI);
  }
  Tensor input_gradient(const Tensor& dy_NO, const Tensor& w_OI) override {
    return inner_->input_gradient(dy_NO, w_OI);
  }
  void weight_gradient(const Tensor& dy_NO, const Tensor& x_NI, GradTarget& target) override {
    defer_([inner = inner_, dy = dy_NO.detach(), x = x_NI.detach(), &target] {
      at::NoGradGuard no_grad;
      inner->weight_gradient(dy, x, target);
    });
  }

 private:
  std::shared_ptr<Gemm> inner_;
  std::function<void(std::function<void()>)> defer_;
};

}  // namespace

std::shared_ptr<Gemm> deferred_gemm(std::shared_ptr<Gemm> inner,
                                    std::function<void(std::function<void()>)> defer) {
  return std::make_shared<DeferredGemm>(std::move(inner), std::move(defer));
}

}  // namespace coeus::nn
