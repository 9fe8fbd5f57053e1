#include <coeus/nn/layers.h>

#include "nn/ops/node.h"

namespace coeus::nn {
namespace {

struct AddLossNode : ops::Node {
  at::TensorOptions options;
  std::string name() const override { return "coeus::AddLoss"; }
  ops::variable_list apply(ops::variable_list&& gradients) override {
    return {gradients[0], should_compute_output(1) ? at::ones({}, options) : Tensor()};
  }
};

}  // namespace

Tensor add_loss(const Tensor& y, const Tensor& aux) {
  if (!at::GradMode::is_enabled() || !aux.requires_grad()) return y;
  Tensor out;
  {
    ops::BelowAutograd guard;
    out = y.alias();
  }
  auto node = ops::make_node<AddLossNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(y, aux));
  node->options = aux.options().requires_grad(std::nullopt);
  torch::autograd::set_history(out, node);
  return out;
}

}  // namespace coeus::nn
