#include "core/torch.h"
#include "nn/attention/attention_node.h"
#include "parallel/context/cores.h"
#include "parallel/context/zigzag.h"

// Every rank gathers all keys and values and attends its own queries to them; in backward it
// gathers them again rather than keep them, and the gradients are reduce-scattered.
namespace coeus::parallel {
namespace {

constexpr comm::CollectiveOptions kOptions{.label = "attention.core all_gather"};

// k and v of the whole sequence in its own order, [B, L, G, K+V].
Tensor gather(comm::Communicator& cp, const Tensor& k, const Tensor& v) {
  const Tensor mine = at::cat({k, v}, -1);
  auto sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), cp.size());
  const Tensor all = at::empty(sizes, mine.options());
  cp.all_gather(all, mine, kOptions).wait();
  return to_sequence_order(all);
}

// This rank's part of the sum over ranks of a gradient of what `gather` gave.
Tensor reduce(comm::Communicator& cp, const Tensor& dkv_BLGW) {
  const Tensor by_rank = to_rank_order(dkv_BLGW, cp.size());
  const Tensor mine = at::empty(by_rank[0].sizes(), by_rank.options());
  cp.reduce_scatter(mine, by_rank, comm::ReduceOp::sum, kOptions).wait();
  return mine;
}

// Each of the rank's chunks of queries with all the keys it may see.
std::vector<PlacedBlock> local_blocks(const comm::Communicator& cp, std::int64_t length,
                                      const nn::AttentionMask& mask) {
  const Chunk all{{0, length * cp.size()}, 0};
  std::vector<PlacedBlock> blocks;
  for (const Chunk& queries : chunks_of(cp.rank(), cp.size(), length / 2)) {
    for (auto& block : blocks_between(queries, all, mask)) blocks.push_back(block);
  }
  return blocks;
}

Tensor queries_of(const PlacedBlock& b, const Tensor& x) {
  return x.narrow(1, b.query_row, b.block.queries.length());
}
Tensor keys_of(const PlacedBlock& b, const Tensor& x, std::int64_t first, std::int64_t dims) {
  return x.narrow(1, b.key_row, b.block.keys.length()).narrow(-1, first, dims);
}

// A query's keys are one block: nothing to merge.
nn::AttentionOut attend_gathered(comm::Communicator& cp, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const nn::AttentionContext& context) {
  const nn::ops::BelowAutograd guard;
  const Tensor kv = gather(cp, k, v);
  std::vector<Tensor> outs, lses;
  for (const auto& b : local_blocks(cp, q.size(1), context.mask)) {
    auto part = nn::attend(queries_of(b, q), keys_of(b, kv, 0, k.size(-1)),
                           keys_of(b, kv, k.size(-1), v.size(-1)), b.block, context);
    outs.push_back(std::move(part.out));
    lses.push_back(std::move(part.lse));
  }
  return {at::cat(outs, 1).to(q.scalar_type()), at::cat(lses, 2)};
}

struct AllGatherNode : nn::AttentionNode {
  comm::Communicator* cp = nullptr;

  std::string name() const override { return "coeus::AllGatherAttention"; }
  nn::QkvGradients backward(const Tensor& q, const Tensor& k, const Tensor& v,
                            const nn::Attended& attended) override {
    const auto k_dim = k.size(-1), v_dim = v.size(-1);
    const Tensor kv = gather(*cp, k, v);
    const Tensor dkv = at::zeros(kv.sizes(), kv.options().dtype(at::kFloat));
    std::vector<Tensor> dqs;
    for (const auto& b : local_blocks(*cp, q.size(1), context.mask)) {
      auto g = nn::attend_backward(
          queries_of(b, q), keys_of(b, kv, 0, k_dim), keys_of(b, kv, k_dim, v_dim),
          attended.rows(b.query_row, b.block.queries.length()), b.block, context);
      dqs.push_back(std::move(g.dq));
      keys_of(b, dkv, 0, k_dim).add_(g.dk);
      keys_of(b, dkv, k_dim, v_dim).add_(g.dv);
    }
    const Tensor mine = reduce(*cp, dkv);
    return {at::cat(dqs, 1), mine.narrow(-1, 0, k_dim), mine.narrow(-1, k_dim, v_dim)};
  }
};

class AllGatherCore : public nn::AttentionCore {
 public:
  explicit AllGatherCore(comm::Communicator& cp) : cp_(cp) {}

 private:
  nn::AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v,
                           const nn::AttentionContext& context) override {
    const auto whole = whole_context(context, q.size(1), cp_.size(), cp_.rank());
    nn::AttentionOut result = attend_gathered(cp_, q, k, v, whole);
    if (nn::records_attention(q, k, v)) {
      auto node = nn::ops::make_node<AllGatherNode>();
      node->cp = &cp_;
      node->context = whole;
      nn::record_attention(node, q, k, v, result);
    }
    return result;
  }

  comm::Communicator& cp_;
};

}  // namespace

std::unique_ptr<nn::AttentionCore> make_all_gather_core(comm::Communicator& cp) {
  return std::make_unique<AllGatherCore>(cp);
}

}  // namespace coeus::parallel
