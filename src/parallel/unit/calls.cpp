#include "parallel/unit/calls.h"

#include "base/error.h"

namespace coeus::parallel {

using torch::autograd::Node;
using torch::autograd::variable_list;

// On every output: the first thing that runs in the layer's backward.
struct BeginBackward : Node {
  UnitCall* call = nullptr;
  std::string name() const override { return "coeus::BeginBackward"; }
  variable_list apply(variable_list&& gradients) override {
    call->begin_backward();
    gradients.resize(num_outputs());  // the anchor's edge, if there is one, gets no gradient
    return std::move(gradients);
  }
};

// On the input: made before the layer's own nodes, so the engine runs it after all of them.
struct EndBackward : Node {
  UnitCall* call = nullptr;
  std::string name() const override { return "coeus::EndBackward"; }
  variable_list apply(variable_list&& gradients) override {
    call->end_backward();
    return std::move(gradients);
  }
};

namespace {

template <class N>
std::shared_ptr<N> make_node(UnitCall* call) {
  auto node = std::shared_ptr<N>(new N(), torch::autograd::deleteNode);
  node->call = call;
  return node;
}

Tensor same_memory(const Tensor& x) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return x.alias();
}

// x itself as seen by the layer, with `EndBackward` behind it.
Tensor identity(UnitCall* call, const Tensor& x) {
  Tensor y = same_memory(x);
  auto node = make_node<EndBackward>(call);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(y, node);
  return y;
}

void hook_outputs(UnitCall* call, nn::Tensors& outputs, const Tensor& anchor) {
  torch::autograd::edge_list edges;
  auto node = make_node<BeginBackward>(call);
  nn::Tensors seen;
  for (auto& out : outputs) {
    edges.push_back(out.requires_grad() ? torch::autograd::impl::gradient_edge(out)
                                        : torch::autograd::Edge());
    seen.push_back(same_memory(out));
  }
  if (anchor.defined()) edges.push_back(torch::autograd::impl::gradient_edge(anchor));
  node->set_next_edges(std::move(edges));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad() || anchor.defined()) {
      torch::autograd::set_history(seen[i], node);
    } else {
      node->add_input_metadata(Node::undefined_input());
    }
  }
  outputs = std::move(seen);
}

}  // namespace

UnitCall::UnitCall(Unit& unit, const nn::LayerBase& layer, at::Device device)
    : unit_(unit),
      backward_reads_weights_(layer.backward_reads_weights()),
      gradients_in_forward_(layer.forms_gradients_in_forward()),
      anchor_(at::zeros({}, at::TensorOptions().device(device)).requires_grad_()) {}

nn::Tensors UnitCall::run(const Tensor& x, const nn::Next& next) {
  unit_.unshard();
  if (next_call != nullptr) next_call->unit_.prefetch();
  if (!at::GradMode::is_enabled()) {
    nn::Tensors out = next(x);
    unit_.reshard();
    return out;
  }
  unit_.open_use();
  if (gradients_in_forward_) unit_.take_gradient_slot();
  const bool needs_anchor = !x.requires_grad();
  const Tensor end = identity(this, needs_anchor ? anchor_ : x);
  nn::Tensors out = next(needs_anchor ? x : end);
  hook_outputs(this, out, needs_anchor ? end : Tensor());
  unit_.reshard();
  return out;
}

void UnitCall::begin_backward() {
  if (backward_reads_weights_) {
    unit_.unshard();
    if (previous_call != nullptr && previous_call->backward_reads_weights_)
      previous_call->unit_.prefetch();
  }
  unit_.take_gradient_slot();
}

void UnitCall::end_backward() {
  if (backward_reads_weights_) unit_.reshard();
  unit_.close_use();
}

}  // namespace coeus::parallel
