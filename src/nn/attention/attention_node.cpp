#include "nn/attention/attention_node.h"

namespace coeus::nn {

void AttentionNode::release_variables() {
  for (auto* saved : {&q_, &k_, &v_, &out_, &lse_}) saved->reset_data();
}

ops::variable_list AttentionNode::apply(ops::variable_list&& gradients) {
  const ops::BelowAutograd guard;
  ops::variable_list result(num_outputs());
  const Tensor q = q_.unpack(), k = k_.unpack(), v = v_.unpack();
  const auto self = shared_from_this();
  Attended attended{.out = out_.unpack(self),
                    .lse = lse_.unpack(self),
                    .dout = gradients[0],
                    .dlse = gradients[1]};
  // Other ranks may wait for this one's part: the gradient is formed even where it is 0.
  if (!attended.dout.defined()) attended.dout = at::zeros_like(attended.out);
  QkvGradients g = backward(q, k, v, attended);
  if (should_compute_output(0)) result[0] = g.dq.to(q.scalar_type());
  if (should_compute_output(1)) result[1] = g.dk.to(k.scalar_type());
  if (should_compute_output(2)) result[2] = g.dv.to(v.scalar_type());
  return result;
}

bool records_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return at::GradMode::is_enabled() &&
         (q.requires_grad() || k.requires_grad() || v.requires_grad());
}

void record_attention(const std::shared_ptr<AttentionNode>& node, const Tensor& q, const Tensor& k,
                      const Tensor& v, AttentionOut& out) {
  node->set_next_edges(torch::autograd::collect_next_edges(q, k, v));
  node->q_ = ops::SavedVariable(q, false);
  node->k_ = ops::SavedVariable(k, false);
  node->v_ = ops::SavedVariable(v, false);
  torch::autograd::set_history(out.out, node);
  torch::autograd::set_history(out.lse, node);
  node->out_ = ops::SavedVariable(out.out, true);
  node->lse_ = ops::SavedVariable(out.lse, true);
}

}  // namespace coeus::nn
