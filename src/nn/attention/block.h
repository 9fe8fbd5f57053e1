#pragma once
#include <coeus/nn/attention.h>

#include <optional>

// Attention of some queries to some keys of the same sequences, and its gradient: what every core
// is made of. Autograd does not record it.
// B sequences, T queries, S keys, H heads, G key-value heads, K head dim of q and k, V of v
namespace coeus::nn {

// Consecutive tokens, by index within the whole sequence.
struct Span {
  std::int64_t begin = 0, end = 0;
  std::int64_t length() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};
struct Block {
  Span queries, keys;
  friend bool operator==(const Block&, const Block&) = default;
};

// The part of a block outside of which causality and window leave no query a key; nothing where
// that is all of it. Documents are not looked at: they are known on the device only.
std::optional<Block> clip(Block block, const AttentionMask& mask);

// q [B, T, H, K], k [B, S, G, K], v [B, S, G, V] hold the block's tokens and no others;
// context.sequence_length must be set. `out` [B, T, H, V] is of q's dtype or wider.
AttentionOut attend(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                    const AttentionContext& context);

// What the backward knows of the block's queries: their results over all the keys they saw, the
// block's and others.
struct Attended {
  Tensor out, lse;
  Tensor dout;
  Tensor dlse = {};  // undefined: 0

  Attended rows(std::int64_t begin, std::int64_t length) const;  // of some queries
};
struct QkvGradients {
  Tensor dq, dk, dv;  // of q's dtype or wider
};
QkvGradients attend_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                             const Attended& attended, const Block& block,
                             const AttentionContext& context);

}  // namespace coeus::nn
