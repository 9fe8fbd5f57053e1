#include "parallel/context/merge.h"

#include <limits>

#include "core/torch.h"

namespace coeus::parallel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [B, H, T] -> [B, T, H, 1]; 0 where this part has no key.
Tensor weight(const Tensor& lse, const Tensor& finite_sum) {
  return (lse - finite_sum).exp_().transpose(1, 2).unsqueeze(-1);
}

}  // namespace

Merge::Merge(const Tensor& q, std::int64_t v_head_dim)
    : out_BTHV_(
          at::zeros({q.size(0), q.size(1), q.size(2), v_head_dim}, q.options().dtype(at::kFloat))),
      lse_BHT_(at::full({q.size(0), q.size(2), q.size(1)}, -kInfinity, out_BTHV_.options())) {}

void Merge::add(std::int64_t row, const nn::AttentionOut& part) {
  const auto rows = part.out.size(1);
  Tensor out = out_BTHV_.narrow(1, row, rows), lse = lse_BHT_.narrow(2, row, rows);
  const Tensor sum = at::logaddexp(lse, part.lse);
  // −inf − −inf is no number: a query without keys yet keeps weights of 0.
  const Tensor finite_sum = sum.masked_fill(sum.eq(-kInfinity), 0.0);
  out.mul_(weight(lse, finite_sum)).addcmul_(part.out.to(at::kFloat), weight(part.lse, finite_sum));
  lse.copy_(sum);
}

}  // namespace coeus::parallel
