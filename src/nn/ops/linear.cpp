#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

Tensor rows(const Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

struct LinearNode : Node {
  SavedVariable x;
  std::shared_ptr<CheapNode> producer;  // of x, which is then not kept
  std::vector<std::int64_t> sizes;      // of x
  SavedWeight w;
  std::shared_ptr<Gemm> gemm;

  std::string name() const override { return "coeus::Linear"; }
  void release_variables() override {
    x.reset_data();
    producer.reset();
    w.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(num_outputs());
    if (!gradients[0].defined()) return out;
    const Tensor dy_NO = rows(gradients[0]);
    const Tensor weight = w.variable.unpack();
    if (should_compute_output(0)) out[0] = gemm->input_gradient(dy_NO, weight).view(sizes);
    if (w.target) {
      gemm->weight_gradient(dy_NO, input_rows(), *w.target);
    } else if (out.size() > 1 && should_compute_output(1)) {
      GradTarget target{at::empty(weight.sizes(), weight.options().dtype(at::kFloat)),
                        GradTarget::Write::overwrite};
      gemm->weight_gradient(dy_NO, input_rows(), target);
      out[1] = target.buffer.to(weight.scalar_type());
    }
    return out;
  }

  Tensor input_rows() {
    at::NoGradGuard no_grad;
    return rows(producer ? producer->form_output() : x.unpack());
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Parameter& w, const std::shared_ptr<Gemm>& gemm,
              KeepInput keep) {
  Tensor y;
  {
    BelowAutograd guard;
    auto sizes = x.sizes().vec();
    sizes.back() = w.size(0);
    y = gemm->forward(rows(x), w).view(sizes);
  }
  if (forms_gradients(x, &w)) {
    auto node = make_node<LinearNode>();
    connect(*node, x, w);
    if (keep == KeepInput::producer)
      node->producer = std::dynamic_pointer_cast<CheapNode>(x.grad_fn());
    if (!node->producer) node->x = SavedVariable(x, false);
    node->sizes = x.sizes().vec();
    node->w.save(w);
    node->gemm = gemm;
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
