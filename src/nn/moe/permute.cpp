#include "nn/moe/permute.h"

#include "base/error.h"
#include "nn/ops/node.h"

namespace coeus::nn::ops {
namespace {

struct ToExpertsNode : Node {
  Permutation permutation;

  std::string name() const override { return "coeus::ToExperts"; }
  void release_variables() override { permutation = {}; }

  variable_list apply(variable_list&& gradients) override {
    variable_list out(1);
    if (!gradients[0].defined() || !should_compute_output(0)) return out;
    const Tensor& rows = gradients[0];
    const Tensor of_slot_Nk = permutation.inverse.view({-1, permutation.k});
    Tensor dx = rows.index_select(0, of_slot_Nk.select(1, 0));
    if (permutation.k > 1) {
      Tensor sum = dx.to(at::kFloat);
      for (std::int64_t j = 1; j < permutation.k; ++j)
        sum.add_(rows.index_select(0, of_slot_Nk.select(1, j)));
      dx = sum.to(rows.scalar_type());
    }
    out[0] = dx;
    return out;
  }
};

}  // namespace

Tensor tokens_per_expert(const Tensor& indices, std::int64_t num_experts) {
  const auto sequences = indices.size(0);
  const Tensor first = at::arange(sequences, indices.options()).mul_(num_experts).unsqueeze(1);
  const Tensor flat = (indices + first).flatten();
  return at::zeros({sequences * num_experts}, indices.options())
      .scatter_add_(0, flat, at::ones_like(flat))
      .view({sequences, num_experts});
}

Permutation Permutation::inverted() const {
  COEUS_ASSERT(k == 1, "only one row a token can be taken back");
  return {inverse, order, 1};
}

Permutation by_expert(const Tensor& indices_Nk) {
  at::NoGradGuard no_grad;
  Permutation p;
  p.k = indices_Nk.size(1);
  p.order = at::argsort(indices_Nk.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  p.inverse =
      at::empty_like(p.order).scatter_(0, p.order, at::arange(p.order.numel(), p.order.options()));
  return p;
}

Tensor to_experts(const Tensor& x_ND, const Permutation& p) {
  Tensor rows;
  {
    BelowAutograd guard;
    rows = x_ND.index_select(0, p.k == 1 ? p.order : p.order.floor_divide(p.k));
  }
  if (forms_gradients(x_ND)) {
    auto node = make_node<ToExpertsNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(x_ND));
    node->permutation = p;
    torch::autograd::set_history(rows, node);
  }
  return rows;
}

}  // namespace coeus::nn::ops
