#pragma once
#include <coeus/nn/parameter.h>

#include "core/torch.h"

namespace coeus::nn::ops {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A node whose output can be formed again at little cost from what it keeps, until its own backward
// has run.
struct CheapNode : Node {
  virtual Tensor form_output() = 0;
};

// Whether an op must be recorded: read outside any Function, so that recompute and evaluation
// decide by grad mode alone.
inline bool forms_gradients(const Tensor& x, const Parameter* w = nullptr) {
  return at::GradMode::is_enabled() && (x.requires_grad() || (w != nullptr && w->requires_grad()));
}

template <class N>
std::shared_ptr<N> make_node() {
  return std::shared_ptr<N>(new N(), torch::autograd::deleteNode);
}

// Edges to x and, where no unit manages w, to the leaf w.
inline void connect(Node& node, const Tensor& x, const Parameter& w) {
  if (w.gradient_target()) {
    node.set_next_edges(torch::autograd::collect_next_edges(x));
  } else {
    node.set_next_edges(torch::autograd::collect_next_edges(x, static_cast<const Tensor&>(w)));
  }
}

// A weight as a Node keeps it: the leaf, and where its gradient goes.
struct SavedWeight {
  void save(const Parameter& w) {
    variable = SavedVariable(static_cast<const Tensor&>(w), false);
    target = w.gradient_target();
  }
  void reset() { variable.reset_data(); }
  SavedVariable variable;
  std::shared_ptr<GradTarget> target;
};

using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;

}  // namespace coeus::nn::ops
