#include <limits>

#include "core/torch.h"
#include "nn/attention/block_kernels.h"

// R queries share a key-value head: H = G·R. They are rows of one matrix, so that a gradient of k
// or v sums over them by itself.
namespace coeus::nn {
namespace {

// [B, T, H, K] -> [B, G, R·T, K] fp32
Tensor by_group(const Tensor& x, std::int64_t groups) {
  return x.to(at::kFloat).unflatten(2, {groups, -1}).permute({0, 2, 3, 1, 4}).flatten(2, 3);
}

// and back.
Tensor by_token(const Tensor& x, std::int64_t length) {
  return x.unflatten(2, {-1, length}).permute({0, 3, 1, 2, 4}).flatten(2, 3);
}

// [B, H, T] -> [B, G, R·T, 1]
Tensor column(const Tensor& lse, std::int64_t groups) {
  return lse.unflatten(1, {groups, -1}).flatten(2, 3).unsqueeze(-1);
}

// [B, G, R·T, S]
Tensor scores(const Tensor& q_BGMK, const Tensor& k_BGSK, const Tensor& q, const Block& block,
              const AttentionContext& context) {
  Tensor s = at::matmul(q_BGMK, k_BGSK.transpose(-1, -2)).mul_(context.scale);
  const Tensor seen_BTS = visible(q, block, context);
  if (seen_BTS.defined()) {
    s.unflatten(2, {-1, q.size(1)})
        .masked_fill_(seen_BTS.logical_not().unsqueeze(1).unsqueeze(1),
                      -std::numeric_limits<double>::infinity());
  }
  return s;
}

}  // namespace

AttentionOut attend_by_math(const Tensor& q, const Tensor& k, const Tensor& v, const Block& block,
                            const AttentionContext& context) {
  const auto groups = k.size(2);
  const Tensor s = scores(by_group(q, groups), by_group(k, groups), q, block, context);
  const Tensor lse = at::logsumexp(s, -1, true);
  const Tensor out = at::matmul((s - subtrahend(lse)).exp_(), by_group(v, groups));
  return {by_token(out, q.size(1)), lse.squeeze(-1).unflatten(2, {-1, q.size(1)}).flatten(1, 2)};
}

QkvGradients attend_by_math_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Attended& a, const Block& block,
                                     const AttentionContext& context) {
  const auto groups = k.size(2);
  const Tensor qf = by_group(q, groups), kf = by_group(k, groups), vf = by_group(v, groups);
  const Tensor dout = by_group(a.dout, groups);
  Tensor delta = (dout * by_group(a.out, groups)).sum(-1, true);
  if (a.dlse.defined()) delta -= column(a.dlse, groups);
  const Tensor p = (scores(qf, kf, q, block, context) - column(subtrahend(a.lse), groups)).exp_();
  const Tensor dv = at::matmul(p.transpose(-1, -2), dout);
  const Tensor ds = at::matmul(dout, vf.transpose(-1, -2)).sub_(delta).mul_(p).mul_(context.scale);
  return {by_token(at::matmul(ds, kf), q.size(1)),
          by_token(at::matmul(ds.transpose(-1, -2), qf), k.size(1)), by_token(dv, k.size(1))};
}

}  // namespace coeus::nn
