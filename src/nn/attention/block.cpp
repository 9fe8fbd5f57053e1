#include "nn/attention/block.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "core/torch.h"
#include "nn/attention/block_kernels.h"
#include "nn/ops/node.h"

namespace coeus::nn {
namespace {

// [B, n] document of each of the span's tokens.
Tensor documents(const Span& span, std::int64_t batch, const AttentionContext& c) {
  const auto options = c.cu_seqlens.options();
  const Tensor first = at::arange(batch, options).mul_(c.sequence_length).unsqueeze(1);
  const Tensor tokens = first + at::arange(span.begin, span.end, options);
  return at::searchsorted(c.cu_seqlens, tokens, false, true);
}

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, const Block& b,
                  const AttentionContext& c) {
  COEUS_ASSERT(q.size(1) == b.queries.length() && k.size(1) == b.keys.length() &&
                   v.size(1) == b.keys.length(),
               "{} queries, {} keys, {} values in a block of {} and {}", q.size(1), k.size(1),
               v.size(1), b.queries.length(), b.keys.length());
  COEUS_ASSERT(q.size(3) == k.size(3) && k.size(2) == v.size(2) && q.size(2) % k.size(2) == 0,
               "q {}, k {} and v {} do not fit", fmt::join(q.sizes(), "x"),
               fmt::join(k.sizes(), "x"), fmt::join(v.sizes(), "x"));
  COEUS_ASSERT(c.sequence_length >= std::max(b.queries.end, b.keys.end),
               "a block up to token {} of {}", std::max(b.queries.end, b.keys.end),
               c.sequence_length);
}

}  // namespace

std::optional<Block> clip(Block b, const AttentionMask& mask) {
  if (mask.causal) {
    b.keys.end = std::min(b.keys.end, b.queries.end);
    b.queries.begin = std::max(b.queries.begin, b.keys.begin);
  }
  if (mask.window > 0) {
    b.keys.begin = std::max(b.keys.begin, b.queries.begin - mask.window + 1);
    b.queries.end = std::min(b.queries.end, b.keys.end + mask.window - 1);
    if (!mask.causal) {
      b.keys.end = std::min(b.keys.end, b.queries.end + mask.window - 1);
      b.queries.begin = std::max(b.queries.begin, b.keys.begin - mask.window + 1);
    }
  }
  if (b.queries.length() <= 0 || b.keys.length() <= 0) return std::nullopt;
  return b;
}

bool hides_later_keys(const Block& b, const AttentionMask& mask) {
  return mask.causal && b.keys.end - 1 > b.queries.begin;
}

bool hides_far_keys(const Block& b, const AttentionMask& mask) {
  if (mask.window <= 0) return false;
  return b.queries.end - 1 - b.keys.begin >= mask.window ||
         (!mask.causal && b.keys.end - 1 - b.queries.begin >= mask.window);
}

Tensor visible(const Tensor& q, const Block& b, const AttentionContext& c) {
  const auto options = at::TensorOptions().device(q.device()).dtype(at::kLong);
  Tensor seen;
  const auto require = [&](const Tensor& condition) {
    seen = seen.defined() ? seen.logical_and(condition) : condition;
  };
  const bool later = hides_later_keys(b, c.mask), far = hides_far_keys(b, c.mask);
  if (later || far) {
    const Tensor distance = (at::arange(b.queries.begin, b.queries.end, options).unsqueeze(1) -
                             at::arange(b.keys.begin, b.keys.end, options))
                                .unsqueeze(0);
    if (later) require(distance.ge(0));
    if (far) require((c.mask.causal ? distance : distance.abs()).lt(c.mask.window));
  }
  if (c.cu_seqlens.defined()) {
    require(documents(b.queries, q.size(0), c)
                .unsqueeze(2)
                .eq(documents(b.keys, q.size(0), c).unsqueeze(1)));
  }
  return seen;
}

Tensor subtrahend(const Tensor& lse) {
  const double inf = std::numeric_limits<double>::infinity();
  return lse.masked_fill(lse.eq(-inf), inf);
}

Attended Attended::rows(std::int64_t begin, std::int64_t length) const {
  return {.out = out.narrow(1, begin, length),
          .lse = lse.narrow(2, begin, length),
          .dout = dout.narrow(1, begin, length),
          .dlse = dlse.defined() ? dlse.narrow(2, begin, length) : Tensor()};
}

AttentionOut attend(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                    const AttentionContext& context) {
  const ops::BelowAutograd guard;
  check_shapes(q, k, v, block, context);
  if (q.is_cpu()) return attend_on_cpu(q, k, v, block, context);
  if (flash_applies(q, v, block, context)) return attend_by_flash(q, k, v, block, context);
  return attend_by_math(q, k, v, block, context);
}

QkvGradients attend_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                             const Attended& attended, const Block& block,
                             const AttentionContext& context) {
  const ops::BelowAutograd guard;
  check_shapes(q, k, v, block, context);
  if (!attended.dlse.defined()) {
    if (q.is_cpu()) return attend_on_cpu_backward(q, k, v, attended, block, context);
    if (flash_applies(q, v, block, context))
      return attend_by_flash_backward(q, k, v, attended, block, context);
  }
  return attend_by_math_backward(q, k, v, attended, block, context);
}

}  // namespace coeus::nn
