#include <algorithm>

#include "base/error.h"
#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1}
                                        << 26;  // of fp32 logits held at a time, 256 MiB
constexpr std::int64_t kIgnored = -100;

// Everything was formed in forward; backward hands dX on.
struct LossNode : Node {
  Tensor dx, dw;

  std::string name() const override { return "coeus::LinearCrossEntropy"; }
  void release_variables() override {
    dx.reset();
    dw.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(num_outputs());
    if (!gradients[0].defined()) return out;
    COEUS_ASSERT(gradients[0].is_cuda() || gradients[0].item<float>() == 1.0f,
                 "the head forms its gradient in forward and accepts no upstream gradient but 1");
    out[0] = dx;
    if (out.size() > 1) out[1] = dw;
    return out;
  }
};

Tensor logits_fp32(const Tensor& x, const Tensor& w_OI) {
  if (x.scalar_type() == at::kFloat) return at::mm(x, w_OI.t());
  if (x.is_cuda()) return at::mm(x, w_OI.t(), at::kFloat);
  return at::mm(x.to(at::kFloat), w_OI.to(at::kFloat).t());
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (a.is_cuda() || a.scalar_type() == at::kFloat) return at::mm(a, b);
  return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(a.scalar_type());
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x_NI, const Tensor& labels_N, const Parameter& w,
                            const Tensor& loss_scale) {
  const bool gradients = forms_gradients(x_NI, &w);
  Tensor sum = at::zeros({}, x_NI.options().dtype(at::kFloat).requires_grad(false));
  Tensor dx;
  GradTarget own;
  GradTarget* target = w.gradient_target().get();
  {
    BelowAutograd guard;
    const Tensor weight = w;
    if (gradients) {
      COEUS_ASSERT(loss_scale.defined(), "training needs batch.loss_scale");
      dx = at::empty(x_NI.sizes(), x_NI.options());
      if (target == nullptr) {
        own.buffer = at::empty(weight.sizes(), weight.options().dtype(at::kFloat));
        target = &own;
      }
    }
    const auto rows = std::max<std::int64_t>(256, kChunkElements / weight.size(0) / 128 * 128);
    for (std::int64_t begin = 0; begin < x_NI.size(0); begin += rows) {
      const auto end = std::min(begin + rows, x_NI.size(0));
      const Tensor x = x_NI.slice(0, begin, end);
      const Tensor valid = labels_N.slice(0, begin, end).ne(kIgnored).unsqueeze(1);
      const Tensor labels = labels_N.slice(0, begin, end).clamp_min(0).unsqueeze(1);
      Tensor logits = logits_fp32(x, weight);
      const Tensor lse = at::logsumexp(logits, 1, true);
      sum.add_((lse - logits.gather(1, labels)).masked_fill_(valid.logical_not(), 0).sum());
      if (!gradients) continue;
      logits.sub_(lse).exp_();  // now the probabilities
      logits.scatter_add_(1, labels, at::full({1, 1}, -1.0, logits.options()).expand_as(labels));
      logits.mul_(valid.to(at::kFloat).mul_(loss_scale));
      const Tensor d = logits.to(x.scalar_type());
      dx.slice(0, begin, end).copy_(product(d, weight));
      target->accumulate_outer(d, x);
    }
  }
  if (gradients) {
    auto node = make_node<LossNode>();
    connect(*node, x_NI, w);
    node->dx = dx;
    if (!w.gradient_target()) node->dw = own.buffer.to(w.scalar_type());
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

}  // namespace coeus::nn::ops
