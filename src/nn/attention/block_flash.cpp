#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/torch.h"
#include "nn/attention/block_kernels.h"

// The kernel aligns the last query of a sequence with its last key. A block of spans is one such
// sequence; with documents each document is one, that part of it which lies inside the spans.
namespace coeus::nn {
namespace {

constexpr std::int64_t kLargestHeadDim = 256;
constexpr std::int64_t kVector = 8;  // elements the kernel loads at once

std::int64_t width_of(const Tensor& q, const Tensor& v) {
  return (std::max(q.size(3), v.size(3)) + kVector - 1) / kVector * kVector;
}

bool is_aligned(const Tensor& x) {
  const auto strides = x.strides();
  return strides[3] == 1 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0 &&
         std::all_of(strides.begin(), strides.end() - 1,
                     [](std::int64_t s) { return s % kVector == 0; });
}

// Zeros behind the head dim change no result.
Tensor operand(const Tensor& x, std::int64_t width) {
  if (x.size(3) < width) return at::constant_pad_nd(x, {0, width - x.size(3)});
  return is_aligned(x) ? x : x.contiguous();
}

// How many keys before and behind the aligned one a query sees; −1: all.
struct Window {
  std::int64_t left = -1, right = -1;
  bool causal() const { return left < 0 && right == 0; }
};

Window window_of(const Block& b, const AttentionMask& mask) {
  const std::int64_t ahead = b.queries.end - b.keys.end;
  Window w;
  if (hides_later_keys(b, mask)) w.right = ahead;
  if (hides_far_keys(b, mask)) {
    w.left = mask.window - 1 - ahead;
    if (!mask.causal) w.right = mask.window - 1 + ahead;
  }
  return w;
}

// Where the documents' parts inside a span begin in the flattened B·length tokens. No document
// reaches from one row into the next.
Tensor starts(const Span& span, const AttentionContext& c) {
  const Tensor row = c.cu_seqlens.div(c.sequence_length, "floor");
  const Tensor within = c.cu_seqlens.remainder(c.sequence_length) - span.begin;
  return within.clamp(0, span.length()) + row * span.length();
}

struct Lengths {
  Tensor queries = {}, keys = {};  // undefined: no documents
  std::int64_t max_queries = 0, max_keys = 0;
};

Lengths lengths_of(const Block& b, const AttentionContext& c) {
  Lengths l{.max_queries = b.queries.length(), .max_keys = b.keys.length()};
  if (!c.cu_seqlens.defined()) return l;
  l.queries = starts(b.queries, c);
  l.keys = starts(b.keys, c);
  if (c.max_document > 0) {
    l.max_queries = std::min(l.max_queries, c.max_document);
    l.max_keys = std::min(l.max_keys, c.max_document);
  }
  l.max_queries = std::max<std::int64_t>(l.max_queries, 2);  // with 1 it assumes a query for each
  return l;
}

// With documents the kernel takes one row of tokens and gives the log-sum-exp as [H, B·T].
Tensor tokens(const Tensor& x, const Lengths& l) {
  return l.queries.defined() ? x.flatten(0, 1) : x;
}
Tensor lse_for_kernel(const Tensor& lse_BHT, const Lengths& l) {
  const Tensor finite = subtrahend(lse_BHT);
  return l.queries.defined() ? finite.transpose(0, 1).flatten(1, 2).contiguous()
                             : finite.contiguous();
}

}  // namespace

bool flash_applies(const Tensor& q, const Tensor& v, const Block& block,
                   const AttentionContext& c) {
  if (!q.is_cuda() || (q.scalar_type() != at::kBFloat16 && q.scalar_type() != at::kHalf))
    return false;
  if (width_of(q, v) > kLargestHeadDim) return false;
  const Window w = window_of(block, c.mask);
  // The kernel takes a limit of as many keys as there are for none: with more queries than keys it
  // would still be one.
  if (w.right >= 0 && block.queries.length() > block.keys.length()) return false;
  // Documents and a mask go together only where both spans end with the same token: then every
  // document's part does too.
  const bool masked = w.left >= 0 || w.right >= 0;
  return !c.cu_seqlens.defined() || !masked || block.queries.end == block.keys.end;
}

AttentionOut attend_by_flash(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                             const AttentionContext& c) {
  const auto batch = q.size(0), length = q.size(1), heads = q.size(2), width = width_of(q, v);
  const Lengths l = lengths_of(block, c);
  const Window w = window_of(block, c.mask);
  const auto optional = [](const Tensor& t) {
    return t.defined() ? std::optional<Tensor>(t) : std::nullopt;
  };
  const auto result = at::_flash_attention_forward(
      tokens(operand(q, width), l), tokens(operand(k, width), l), tokens(operand(v, width), l),
      optional(l.queries), optional(l.keys), l.max_queries, l.max_keys, 0.0, w.causal(), false,
      c.scale, w.left, w.right);
  const Tensor out = std::get<0>(result).view({batch, length, heads, width});
  Tensor lse = std::get<1>(result);
  if (l.queries.defined()) {
    // The kernel says +inf where a query has no key.
    const double inf = std::numeric_limits<double>::infinity();
    lse = lse.view({heads, batch, length}).transpose(0, 1);
    lse = lse.masked_fill(lse.eq(inf), -inf);
  }
  return {out.narrow(-1, 0, v.size(3)), lse};
}

QkvGradients attend_by_flash_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Attended& a, const Block& block,
                                      const AttentionContext& c) {
  const auto batch = q.size(0), width = width_of(q, v);
  const Lengths l = lengths_of(block, c);
  const Window w = window_of(block, c.mask);
  const Tensor no_dropout = at::zeros({2}, q.options().dtype(at::kLong));
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      tokens(operand(a.dout, width), l), tokens(operand(q, width), l), tokens(operand(k, width), l),
      tokens(operand(v, width), l), tokens(operand(a.out, width), l), lse_for_kernel(a.lse, l),
      l.queries, l.keys, l.max_queries, l.max_keys, 0.0, w.causal(), no_dropout, no_dropout,
      c.scale, w.left, w.right);
  return {dq.view({batch, q.size(1), q.size(2), width}).narrow(-1, 0, q.size(3)),
          dk.view({batch, k.size(1), k.size(2), width}).narrow(-1, 0, k.size(3)),
          dv.view({batch, v.size(1), v.size(2), width}).narrow(-1, 0, v.size(3))};
}

}  // namespace coeus::nn
