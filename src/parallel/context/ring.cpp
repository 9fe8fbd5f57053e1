#include <optional>

#include "core/torch.h"
#include "nn/attention/attention_node.h"
#include "parallel/context/cores.h"
#include "parallel/context/hop.h"
#include "parallel/context/merge.h"
#include "parallel/context/zigzag.h"

// Keys and values go round the ring; each rank attends its queries to those that it holds at the
// moment, chunk against chunk, and merges by log-sum-exp (https://arxiv.org/abs/2310.01889). In
// backward they go round again, and their gradients one step behind them.
namespace coeus::parallel {
namespace {

// The blocks of this rank's queries and the keys that it holds at a step: those of the rank so many
// places before it.
std::vector<PlacedBlock> blocks_at(int step, const comm::Communicator& ring, std::int64_t length,
                                   const nn::AttentionMask& mask) {
  const int n = ring.size(), owner = (ring.rank() - step + n) % n;
  std::vector<PlacedBlock> blocks;
  for (const Chunk& queries : chunks_of(ring.rank(), n, length / 2)) {
    for (const Chunk& keys : chunks_of(owner, n, length / 2)) {
      for (auto& block : blocks_between(queries, keys, mask)) blocks.push_back(block);
    }
  }
  return blocks;
}

// k and v as one buffer [B, T, G, K+V], and their parts of a block's keys.
struct KeysAndValues {
  Tensor buffer;
  std::int64_t k_dim;
  Tensor k(const PlacedBlock& b) const { return rows(b).narrow(-1, 0, k_dim); }
  Tensor v(const PlacedBlock& b) const {
    return rows(b).narrow(-1, k_dim, buffer.size(-1) - k_dim);
  }

 private:
  Tensor rows(const PlacedBlock& b) const {
    return buffer.narrow(1, b.key_row, b.block.keys.length());
  }
};

Tensor queries_of(const PlacedBlock& b, const Tensor& x) {
  return x.narrow(1, b.query_row, b.block.queries.length());
}

nn::AttentionOut attend_ring(comm::Communicator& ring, const Tensor& q, const Tensor& k,
                             const Tensor& v, const nn::AttentionContext& context) {
  const nn::ops::BelowAutograd guard;
  KeysAndValues kv{at::cat({k, v}, -1), k.size(-1)};
  Merge merge(q, v.size(-1));
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Hop> hop;
    if (step + 1 < ring.size()) hop.emplace(ring, kv.buffer);
    for (const auto& b : blocks_at(step, ring, q.size(1), context.mask))
      merge.add(b.query_row, nn::attend(queries_of(b, q), kv.k(b), kv.v(b), b.block, context));
    if (hop) kv.buffer = hop->arrive();
  }
  return {merge.out().to(q.scalar_type()), merge.lse()};
}

struct RingNode : nn::AttentionNode {
  comm::Communicator* ring = nullptr;

  std::string name() const override { return "coeus::RingAttention"; }

  // A gradient of keys and values leaves this rank when this rank's part is in it; after as many
  // steps as there are ranks it is home.
  nn::QkvGradients backward(const Tensor& q, const Tensor& k, const Tensor& v,
                            const nn::Attended& attended) override {
    KeysAndValues kv{at::cat({k, v}, -1), k.size(-1)};
    const auto fp32 = q.options().dtype(at::kFloat);
    const Tensor dq = at::zeros(q.sizes(), fp32);
    std::optional<Hop> gradient_hop;
    for (int step = 0; step < ring->size(); ++step) {
      std::optional<Hop> hop;
      if (step + 1 < ring->size()) hop.emplace(*ring, kv.buffer);
      const KeysAndValues dkv{at::zeros(kv.buffer.sizes(), fp32), kv.k_dim};
      for (const auto& b : blocks_at(step, *ring, q.size(1), context.mask)) {
        const auto g = nn::attend_backward(queries_of(b, q), kv.k(b), kv.v(b),
                                           attended.rows(b.query_row, b.block.queries.length()),
                                           b.block, context);
        queries_of(b, dq).add_(g.dq);
        dkv.k(b).add_(g.dk);
        dkv.v(b).add_(g.dv);
      }
      if (gradient_hop) dkv.buffer.add_(gradient_hop->arrive());
      gradient_hop.emplace(*ring, dkv.buffer);
      if (hop) kv.buffer = hop->arrive();
    }
    const Tensor home = gradient_hop->arrive();
    return {dq, home.narrow(-1, 0, kv.k_dim), home.narrow(-1, kv.k_dim, v.size(-1))};
  }
};

class RingCore : public nn::AttentionCore {
 public:
  explicit RingCore(comm::Communicator& ring) : ring_(ring) {}

 private:
  nn::AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v,
                           const nn::AttentionContext& context) override {
    const auto whole = whole_context(context, q.size(1), ring_.size(), ring_.rank());
    nn::AttentionOut result = attend_ring(ring_, q, k, v, whole);
    if (nn::records_attention(q, k, v)) {
      auto node = nn::ops::make_node<RingNode>();
      node->ring = &ring_;
      node->context = whole;
      nn::record_attention(node, q, k, v, result);
    }
    return result;
  }

  comm::Communicator& ring_;
};

}  // namespace

std::unique_ptr<nn::AttentionCore> make_ring_core(comm::Communicator& cp) {
  return std::make_unique<RingCore>(cp);
}

}  // namespace coeus::parallel
