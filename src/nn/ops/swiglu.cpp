#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

// Computes f in fp32 on CPU where the data is bf16 (rounded once), in place of it on CUDA.
Tensor wide(const Tensor& x) {
  return x.is_cuda() ? x : x.to(at::kFloat);
}

Tensor product(const Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, -1);
  return at::silu(wide(parts[0])).mul_(wide(parts[1])).to(gate_up.scalar_type());
}

struct SwiGluNode : CheapNode {
  SavedVariable gate_up;

  std::string name() const override { return "coeus::SwiGlu"; }
  void release_variables() override { gate_up.reset_data(); }
  Tensor form_output() override { return product(gate_up.unpack()); }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(1);
    if (!gradients[0].defined() || !should_compute_output(0)) return out;
    const Tensor saved = gate_up.unpack();
    const Tensor dy = wide(gradients[0]);
    const auto parts = saved.chunk(2, -1);
    const Tensor gate = wide(parts[0]), up = wide(parts[1]);
    Tensor dx = at::empty(saved.sizes(), saved.options());
    auto dparts = dx.chunk(2, -1);
    dparts[0].copy_(at::silu_backward(dy * up, gate));
    dparts[1].copy_(dy * at::silu(gate));
    out[0] = dx;
    return out;
  }
};

}  // namespace

Tensor swiglu(const Tensor& gate_up) {
  Tensor y;
  {
    BelowAutograd guard;
    y = product(gate_up);
  }
  if (forms_gradients(gate_up)) {
    auto node = make_node<SwiGluNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(gate_up));
    node->gate_up = SavedVariable(gate_up, false);
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
