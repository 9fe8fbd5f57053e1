#pragma once
#include "nn/attention/block.h"
#include "nn/ops/node.h"

namespace coeus::nn {

// What the backward of every core keeps, and the shape of that backward: from the gradients of out
// and lse to those of q, k and v. A core adds how to compute them.
struct AttentionNode : ops::Node {
  AttentionContext context;

  void release_variables() override;
  ops::variable_list apply(ops::variable_list&& gradients) override;

 protected:
  virtual QkvGradients backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                const Attended& attended) = 0;

 private:
  friend void record_attention(const std::shared_ptr<AttentionNode>& node, const Tensor& q,
                               const Tensor& k, const Tensor& v, AttentionOut& out);
  ops::SavedVariable q_, k_, v_, out_, lse_;
};

bool records_attention(const Tensor& q, const Tensor& k, const Tensor& v);
// Makes `node` the history of `out`.
void record_attention(const std::shared_ptr<AttentionNode>& node, const Tensor& q, const Tensor& k,
                      const Tensor& v, AttentionOut& out);

}  // namespace coeus::nn
