#include <coeus/nn/attention.h>

#include "base/error.h"
#include "core/torch.h"
#include "nn/attention/attention_node.h"

namespace coeus::nn {
namespace {

struct DenseNode : AttentionNode {
  Block block;

  std::string name() const override { return "coeus::DenseAttention"; }
  QkvGradients backward(const Tensor& q, const Tensor& k, const Tensor& v,
                        const Attended& attended) override {
    return attend_backward(q, k, v, attended, block, context);
  }
};

}  // namespace

AttentionOut DenseAttentionCore::forward(const Tensor& q_BTHK, const Tensor& k_BSGK,
                                         const Tensor& v_BSGV, const AttentionContext& context) {
  const auto num_queries = q_BTHK.size(1), num_keys = k_BSGK.size(1);
  COEUS_ASSERT(num_queries <= num_keys, "{} queries of {} tokens", num_queries, num_keys);
  // Fewer queries than keys are the last ones: what came before is in a cache.
  const Block block{.queries = {num_keys - num_queries, num_keys}, .keys = {0, num_keys}};
  AttentionContext whole = context;
  whole.sequence_length = num_keys;
  AttentionOut result = attend(q_BTHK, k_BSGK, v_BSGV, block, whole);
  {
    const ops::BelowAutograd guard;
    result.out = result.out.to(q_BTHK.scalar_type());
  }
  if (records_attention(q_BTHK, k_BSGK, v_BSGV)) {
    auto node = ops::make_node<DenseNode>();
    node->context = whole;
    node->block = block;
    record_attention(node, q_BTHK, k_BSGK, v_BSGV, result);
  }
  return result;
}

}  // namespace coeus::nn
