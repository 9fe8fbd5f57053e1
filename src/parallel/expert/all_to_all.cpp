#include "parallel/expert/all_to_all.h"

#include <numeric>

#include "core/torch.h"

namespace coeus::parallel {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

Tensor exchange(const Tensor& x, const RowTraffic& traffic, comm::Communicator& group,
                const std::string& label) {
  const auto rows =
      std::accumulate(traffic.receive.begin(), traffic.receive.end(), std::int64_t{0});
  auto sizes = x.sizes().vec();
  sizes[0] = rows;
  Tensor out = at::empty(sizes, x.options().requires_grad(std::nullopt));
  group.all_to_all(out, x.contiguous(), traffic.receive, traffic.send, {.label = label}).wait();
  return out;
}

struct AllToAllNode : Node {
  RowTraffic traffic;
  comm::Communicator* group = nullptr;
  std::string label;
  std::vector<std::int64_t> out_sizes;
  at::TensorOptions options;

  std::string name() const override { return "coeus::AllToAll"; }

  // Takes part even where its own gradient is undefined or unwanted: the others wait for it.
  variable_list apply(variable_list&& gradients) override {
    const Tensor dy = gradients[0].defined() ? gradients[0] : at::zeros(out_sizes, options);
    return {exchange(dy, traffic.reversed(), *group, label)};
  }
};

}  // namespace

Tensor all_to_all_rows(const Tensor& x, const RowTraffic& traffic, comm::Communicator& group,
                       const std::string& label) {
  Tensor out;
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    out = exchange(x, traffic, group, label);
  }
  if (at::GradMode::is_enabled() && x.requires_grad()) {
    auto node = std::shared_ptr<AllToAllNode>(new AllToAllNode(), torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->traffic = traffic;
    node->group = &group;
    node->label = label;
    node->out_sizes = out.sizes().vec();
    node->options = out.options();
    torch::autograd::set_history(out, node);
  }
  return out;
}

}  // namespace coeus::parallel
