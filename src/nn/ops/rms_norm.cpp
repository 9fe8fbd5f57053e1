#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

// Statistics and gradient in fp32 whatever the dtype of x.
Tensor scaled(const Tensor& x, const Tensor& rstd, const Tensor& w) {
  return (x.to(at::kFloat) * rstd).mul_(w.to(at::kFloat)).to(x.scalar_type());
}

struct RmsNormNode : CheapNode {
  SavedVariable x;
  SavedWeight w;
  Tensor rstd;  // [..., 1] fp32

  std::string name() const override { return "coeus::RmsNorm"; }
  void release_variables() override {
    x.reset_data();
    w.reset();
    rstd.reset();
  }

  Tensor form_output() override { return scaled(x.unpack(), rstd, w.variable.unpack()); }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(num_outputs());
    if (!gradients[0].defined()) return out;
    const Tensor input = x.unpack();
    const Tensor weight = w.variable.unpack();
    const Tensor dy = gradients[0].to(at::kFloat);
    const Tensor normed = input.to(at::kFloat) * rstd;
    if (should_compute_output(0)) {
      Tensor dn = dy * weight.to(at::kFloat);
      const Tensor mean = (dn * normed).mean(-1, true);
      out[0] = dn.addcmul_(normed, mean, -1).mul_(rstd).to(input.scalar_type());
    }
    if (w.target || (out.size() > 1 && should_compute_output(1))) {
      const Tensor dw = (dy * normed).reshape({-1, weight.size(0)}).sum(0);
      if (w.target) {
        w.target->accumulate(dw);
      } else {
        out[1] = dw.to(weight.scalar_type());
      }
    }
    return out;
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Parameter& w, double eps) {
  Tensor y, rstd;
  {
    BelowAutograd guard;
    const Tensor xf = x.to(at::kFloat);
    rstd = (xf * xf).mean(-1, true).add_(eps).rsqrt_();
    y = scaled(x, rstd, w);
  }
  if (forms_gradients(x, &w)) {
    auto node = make_node<RmsNormNode>();
    connect(*node, x, w);
    node->x = SavedVariable(x, false);
    node->w.save(w);
    node->rstd = rstd;
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
