#include "nn/ops/node.h"
#include "nn/ops/ops.h"

namespace coeus::nn::ops {
namespace {

struct EmbeddingNode : Node {
  SavedVariable tokens;
  std::shared_ptr<GradTarget> target;
  std::vector<std::int64_t> weight_sizes;
  at::ScalarType weight_type;

  std::string name() const override { return "coeus::Embedding"; }
  void release_variables() override { tokens.reset_data(); }

  // Summed in fp32 in token order (CPU) or by libtorch's sorted kernel (CUDA): the same bits each
  // time.
  Tensor weight_gradient(const Tensor& dy) const {
    return at::embedding_dense_backward(dy.to(at::kFloat), tokens.unpack(), weight_sizes[0], -1,
                                        false);
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(num_outputs());
    if (!gradients[0].defined()) return out;
    if (target) {
      target->accumulate(weight_gradient(gradients[0]));
    } else if (out.size() > 1 && should_compute_output(1)) {
      out[1] = weight_gradient(gradients[0]).to(weight_type);
    }
    return out;
  }
};

}  // namespace

Tensor embedding(const Tensor& tokens, const Parameter& w) {
  Tensor y;
  {
    BelowAutograd guard;
    y = at::embedding(w, tokens);
  }
  if (forms_gradients(tokens, &w)) {
    auto node = make_node<EmbeddingNode>();
    connect(*node, tokens, w);
    node->tokens = SavedVariable(tokens, false);
    node->target = w.gradient_target();
    node->weight_sizes = w.sizes().vec();
    node->weight_type = w.scalar_type();
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
