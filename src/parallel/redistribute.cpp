#include "parallel/redistribute.h"

#include <fmt/format.h>

#include "base/error.h"
#include "nn/ops/node.h"
#include "parallel/move_parts.h"

namespace coeus::parallel {
namespace {

using Kind = Placement::Kind;
using torch::autograd::Node;
using torch::autograd::variable_list;

struct RedistributeNode : Node {
  TensorLayout output_gradient, input_gradient;
  comm::Communicator* mesh = nullptr;
  std::string label;

  std::string name() const override { return "coeus::Redistribute"; }
  variable_list apply(variable_list&& gradients) override {
    // An undefined gradient counts as zeros: the other ranks may wait for this one.
    const Tensor dy = gradients[0].defined() ? gradients[0] : input_metadata(0).zeros_like();
    return {move_parts(dy, output_gradient, input_gradient, *mesh, label)};
  }
};

struct Gradients {
  TensorLayout output, input;
};

Placement default_output_gradient(const Placement& from, const Placement& to) {
  if (to.kind == Kind::shard) return to;
  return from.kind == Kind::partial ? replicate() : partial();
}

Placement default_input_gradient(const Placement& from) {
  return from.kind == Kind::shard ? from : replicate();
}

std::string operation(const std::string& label) {
  return label.empty() ? "redistribute" : label + ": redistribute";
}

// A gradient has its tensor's parts.
void check_gradient(const TensorLayout& gradient, const TensorLayout& of, const std::string& op) {
  COEUS_ASSERT(gradient.placements.size() == of.placements.size(), "{}: {} as the gradient of {}",
               op, describe(gradient), describe(of));
  for (std::size_t k = 0; k < of.placements.size(); ++k) {
    const Placement &g = gradient.placements[k], &t = of.placements[k];
    COEUS_ASSERT(g == t || (g.kind != Kind::shard && t.kind != Kind::shard),
                 "{}: {} as the gradient of {}", op, describe(gradient), describe(of));
  }
}

void check_part(const Tensor& x, const TensorLayout& from, const comm::Communicator& mesh,
                const std::string& op) {
  COEUS_ASSERT(num_ranks(from) == mesh.size(), "{}: {} on the {} ranks of {}", op, describe(from),
               mesh.size(), mesh.name());
  const auto part = part_at(from, coordinates_of(from, mesh.rank()));
  if (x.sizes() == at::IntArrayRef(part.shape)) return;
  throw ConfigError(fmt::format("{}: rank {} holds [{}] of a tensor of {}; its part is [{}]", op,
                                mesh.rank(), fmt::join(x.sizes(), ", "), describe(from),
                                fmt::join(part.shape, ", ")));
}

Tensor differentiable(const Tensor& x, const TensorLayout& from, const TensorLayout& to,
                      Gradients gradients, comm::Communicator& mesh, const std::string& label) {
  const bool recorded = nn::ops::forms_gradients(x);
  if (recorded) {
    const std::string op = operation(label) + " of the gradient";
    check_gradient(gradients.output, to, op);
    check_gradient(gradients.input, from, op);
    check_redistribute(gradients.output, gradients.input, op);
  }
  Tensor y;
  {
    nn::ops::BelowAutograd guard;
    y = move_parts(x, from, to, mesh, label);
    if (y.is_same(x)) y = x.alias();
  }
  if (!recorded) return y;
  auto node = nn::ops::make_node<RedistributeNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  node->output_gradient = std::move(gradients.output);
  node->input_gradient = std::move(gradients.input);
  node->mesh = &mesh;
  node->label = label;
  torch::autograd::set_history(y, node);
  return y;
}

TensorLayout one_axis(const Tensor& x, const Placement& from, const comm::Communicator& axis,
                      std::int64_t global_size) {
  TensorLayout layout{x.sizes().vec(), {{axis.name(), axis.size()}}, {from}};
  if (from.kind == Kind::shard && from.dim >= 0 && from.dim < x.dim()) {
    layout.shape[static_cast<std::size_t>(from.dim)] =
        global_size > 0 ? global_size : x.size(from.dim) * axis.size();
  }
  return layout;
}

}  // namespace

Tensor redistribute(const Tensor& x, Placement from, Placement to, comm::Communicator& axis,
                    const RedistributeOptions& options) {
  const TensorLayout source = one_axis(x, from, axis, options.global_size);
  const auto placed = [&](const Placement& placement) {
    return TensorLayout{source.shape, source.axes, {placement}};
  };
  const TensorLayout target = placed(to);
  check_redistribute(source, target, operation(options.label));
  check_part(x, source, axis, operation(options.label));
  return differentiable(
      x, source, target,
      {placed(options.output_gradient.value_or(default_output_gradient(from, to))),
       placed(options.input_gradient.value_or(default_input_gradient(from)))},
      axis, options.label);
}

Tensor redistribute(const Tensor& x, const TensorLayout& from, const TensorLayout& to,
                    comm::Communicator& mesh, const LayoutRedistributeOptions& options) {
  check_redistribute(from, to, operation(options.label));
  check_part(x, from, mesh, operation(options.label));
  Gradients gradients{to, from};
  for (std::size_t k = 0; k < from.axes.size(); ++k) {
    const Placement &a = from.placements[k], &b = to.placements[k];
    const bool untouched = a == replicate() && b == replicate();
    gradients.output.placements[k] = untouched ? replicate() : default_output_gradient(a, b);
    gradients.input.placements[k] = default_input_gradient(a);
  }
  if (!options.output_gradient.empty()) gradients.output.placements = options.output_gradient;
  if (!options.input_gradient.empty()) gradients.input.placements = options.input_gradient;
  return differentiable(x, from, to, std::move(gradients), mesh, options.label);
}

}  // namespace coeus::parallel
