#include "nn/moe/permute.h"
#include "nn/ops/node.h"

namespace coeus::nn::ops {
namespace {

Tensor rows_of_slot(const Tensor& rows_MD, const Permutation& p, std::int64_t slot) {
  return rows_MD.index_select(0, p.inverse.view({-1, p.k}).select(1, slot)).to(at::kFloat);
}

struct CombineNode : Node {
  SavedVariable rows, weights;
  Permutation permutation;

  std::string name() const override { return "coeus::Combine"; }
  void release_variables() override {
    rows.reset_data();
    weights.reset_data();
    permutation = {};
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(2);
    if (!gradients[0].defined()) return out;
    const auto& p = permutation;
    const Tensor& dy_ND = gradients[0];
    const Tensor rows_MD = rows.unpack(), weights_Nk = weights.unpack();
    if (should_compute_output(0)) {
      const Tensor weight_M1 = weights_Nk.flatten().index_select(0, p.order).unsqueeze(1);
      out[0] = dy_ND.index_select(0, p.order.floor_divide(p.k))
                   .to(at::kFloat)
                   .mul_(weight_M1)
                   .to(rows_MD.scalar_type());
    }
    if (should_compute_output(1)) {
      const Tensor dy = dy_ND.to(at::kFloat);
      Tensor dw = at::empty(weights_Nk.sizes(), weights_Nk.options());
      for (std::int64_t j = 0; j < p.k; ++j)
        dw.select(1, j).copy_(rows_of_slot(rows_MD, p, j).mul_(dy).sum(1));
      out[1] = dw;
    }
    return out;
  }
};

}  // namespace

Tensor combine(const Tensor& rows_MD, const Tensor& weights_Nk, const Permutation& p) {
  Tensor y;
  {
    BelowAutograd guard;
    Tensor sum = rows_of_slot(rows_MD, p, 0).mul_(weights_Nk.select(1, 0).unsqueeze(1));
    for (std::int64_t j = 1; j < p.k; ++j)
      sum.addcmul_(rows_of_slot(rows_MD, p, j), weights_Nk.select(1, j).unsqueeze(1));
    y = sum.to(rows_MD.scalar_type());
  }
  if (at::GradMode::is_enabled() && (rows_MD.requires_grad() || weights_Nk.requires_grad())) {
    auto node = make_node<CombineNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(rows_MD, weights_Nk));
    node->rows = SavedVariable(rows_MD, false);
    node->weights = SavedVariable(weights_Nk, false);
    node->permutation = p;
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace coeus::nn::ops
