#include "nn/moe/grouped_linear.h"

#include <numeric>

#include "base/error.h"
#include "nn/ops/node.h"

namespace coeus::nn::ops {
namespace {

struct GroupedLinearNode : Node {
  SavedVariable x;
  SavedWeight w;
  GroupedGemm::Counts counts;
  std::shared_ptr<GroupedGemm> gemm;

  std::string name() const override { return "coeus::GroupedLinear"; }
  void release_variables() override {
    x.reset_data();
    w.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(num_outputs());
    if (!gradients[0].defined()) return out;
    const Tensor dy_MO = gradients[0].contiguous();
    const Tensor input = x.unpack();
    const Tensor weight = w.variable.unpack();
    if (should_compute_output(0)) out[0] = gemm->input_gradient(dy_MO, weight, counts);
    if (w.target) {
      gemm->weight_gradient(dy_MO, input, counts, *w.target);
    } else if (out.size() > 1 && should_compute_output(1)) {
      GradTarget target{at::zeros(weight.sizes(), weight.options().dtype(at::kFloat)),
                        GradTarget::Write::add};
      gemm->weight_gradient(dy_MO, input, counts, target);
      out[1] = target.buffer.to(weight.scalar_type());
    }
    return out;
  }
};

}  // namespace

Tensor grouped_linear(const Tensor& x_MI, const GroupedGemm::Counts& counts, const Parameter& w,
                      const std::shared_ptr<GroupedGemm>& gemm) {
  COEUS_ASSERT(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == x_MI.size(0),
               "the experts' counts do not add up to the {} rows", x_MI.size(0));
  Tensor y;
  {
    BelowAutograd guard;
    y = gemm->forward(x_MI, w, counts);
  }
  if (forms_gradients(x_MI, &w)) {
    auto node = make_node<GroupedLinearNode>();
    connect(*node, x_MI, w);
    node->x = SavedVariable(x_MI, false);
    node->w.save(w);
    node->counts = counts;
    node->gemm = gemm;
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
