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

struct Normaliser {
  Tensor lse, label_logit;  // [N, 1]
};

Normaliser normaliser(const Tensor& logits_NV, const Tensor& labels_N1, const Tensor& here,
                      const VocabularyPart* part) {
  if (part == nullptr) return {at::logsumexp(logits_NV, 1, true), logits_NV.gather(1, labels_N1)};
  Tensor maximum = logits_NV.amax(1, true);
  part->max(maximum);
  Tensor sums = at::cat(
      {(logits_NV - maximum).exp_().sum(1, true), logits_NV.gather(1, labels_N1).mul_(here)}, 1);
  part->sum(sums);
  return {sums.narrow(1, 0, 1).log().add_(maximum), sums.narrow(1, 1, 1)};
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (a.is_cuda() || a.scalar_type() == at::kFloat) return at::mm(a, b);
  return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(a.scalar_type());
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x_NI, const Tensor& labels_N, const Parameter& w,
                            const Tensor& loss_scale, const VocabularyPart* part) {
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
    const auto largest = part == nullptr ? weight.size(0) : part->largest;
    const auto rows = std::max<std::int64_t>(256, kChunkElements / largest / 128 * 128);
    for (std::int64_t begin = 0; begin < x_NI.size(0); begin += rows) {
      const auto end = std::min(begin + rows, x_NI.size(0));
      const Tensor x = x_NI.slice(0, begin, end);
      const Tensor valid = labels_N.slice(0, begin, end).ne(kIgnored).unsqueeze(1);
      Tensor labels = labels_N.slice(0, begin, end).clamp_min(0).unsqueeze(1);
      Tensor logits = logits_fp32(x, weight);
      Tensor here = at::ones({1, 1}, logits.options());  // 1 where W holds the label's row
      if (part != nullptr) {
        labels = labels - part->first;
        here = labels.ge(0).logical_and_(labels.lt(weight.size(0))).to(at::kFloat);
        labels = labels.clamp(0, weight.size(0) - 1);
      }
      const auto [lse, label_logit] = normaliser(logits, labels, here, part);
      sum.add_((lse - label_logit).masked_fill_(valid.logical_not(), 0).sum());
      if (!gradients) continue;
      logits.sub_(lse).exp_();  // now the probabilities
      logits.scatter_add_(1, labels, here.neg().expand_as(labels));
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
