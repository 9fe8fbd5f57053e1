#include "parallel/recompute/recompute.h"

#include <coeus/nn/linear.h>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::parallel {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Runs `next` again on a detached input and sends the gradients through it. backward(), never
// grad(inputs): that would skip weights.
struct RecomputeNode : Node {
  SavedVariable x;
  nn::Next next;

  std::string name() const override { return "coeus::Recompute"; }
  void release_variables() override {
    x.reset_data();
    next = {};
  }

  variable_list apply(variable_list&& gradients) override {
    Tensor input = x.unpack().detach();
    const bool wanted = should_compute_output(0);
    if (wanted) input.requires_grad_();
    at::AutoGradMode enable(true);
    nn::Tensors outputs;
    {
      nn::RecomputeGuard guard;
      outputs = next(input);
    }
    variable_list roots, upstream;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      upstream.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, upstream);
    variable_list out(num_outputs());
    if (wanted) out[0] = input.grad();
    return out;
  }
};

class RecomputeAttachment : public nn::Attachment {
 public:
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    if (!at::GradMode::is_enabled()) return next(x);
    nn::Tensors outputs;
    {
      at::NoGradGuard no_grad;
      outputs = next(x);
    }
    COEUS_ASSERT(x.requires_grad(), "recompute needs an input that takes gradients");
    auto node = std::shared_ptr<RecomputeNode>(new RecomputeNode(), torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->x = SavedVariable(x, false);
    node->next = next;
    for (auto& out : outputs) {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      out = out.alias();
    }
    torch::autograd::set_history(outputs, node);
    return outputs;
  }
};

}  // namespace

void recompute_cheap_inputs(nn::LayerBase& layer) {
  layer.visit("", [](const std::string&, nn::LayerBase& inner) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&inner)) linear->recompute_input();
  });
}

std::unique_ptr<nn::Attachment> make_recompute() {
  return std::make_unique<RecomputeAttachment>();
}

}  // namespace coeus::parallel
