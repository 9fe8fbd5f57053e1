#include <coeus/nn/moe.h>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::nn {
namespace {

// f(expert, first row, rows) for each expert that has rows.
template <class F>
void for_each_group(const GroupedGemm::Counts& counts, F&& f) {
  std::int64_t first = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] > 0) f(static_cast<std::int64_t>(e), first, counts[e]);
    first += counts[e];
  }
}

Tensor as_matrices(const Tensor& w_EOI, std::size_t num_experts) {
  const auto E = static_cast<std::int64_t>(num_experts);
  return w_EOI.view({E, w_EOI.size(0) / E, w_EOI.size(1)});
}

// x [M, I] · the matrix [I, O] of each row's expert, one product after another.
Tensor product(const Tensor& x_MI, const Tensor& w_EIO, const GroupedGemm::Counts& counts) {
  Tensor y = at::empty({x_MI.size(0), w_EIO.size(2)}, x_MI.options());
  for_each_group(counts, [&](std::int64_t e, std::int64_t first, std::int64_t n) {
    Tensor out = y.narrow(0, first, n);
    const Tensor x = x_MI.narrow(0, first, n), w = w_EIO.select(0, e);
    if (x.is_cuda() || x.scalar_type() == at::kFloat) {
      at::mm_out(out, x, w);
    } else {
      out.copy_(at::mm(x.to(at::kFloat), w.to(at::kFloat)));
    }
  });
  return y;
}

class DenseGroupedGemm : public GroupedGemm {
 public:
  Tensor forward(const Tensor& x_MI, const Tensor& w_EOI, const Counts& counts) override {
    return product(x_MI, as_matrices(w_EOI, counts.size()).transpose(1, 2), counts);
  }

  Tensor input_gradient(const Tensor& dy_MO, const Tensor& w_EOI, const Counts& counts) override {
    return product(dy_MO, as_matrices(w_EOI, counts.size()), counts);
  }

  // fp32 sums straight into the target, one matrix after another.
  void weight_gradient(const Tensor& dy_MO, const Tensor& x_MI, const Counts& counts,
                       GradTarget& target) override {
    if (x_MI.size(0) == 0) return;
    GradTarget::Write how;
    const Tensor stack = as_matrices(target.begin_write(how), counts.size());
    if (how == GradTarget::Write::overwrite) {
      for (std::size_t e = 0; e < counts.size(); ++e)
        if (counts[e] == 0) stack.select(0, static_cast<std::int64_t>(e)).zero_();
    }
    for_each_group(counts, [&](std::int64_t e, std::int64_t first, std::int64_t n) {
      GradTarget one{stack.select(0, e), how};
      one.accumulate_outer(dy_MO.narrow(0, first, n), x_MI.narrow(0, first, n));
    });
  }
};

}  // namespace

std::shared_ptr<GroupedGemm> dense_grouped_gemm() {
  return std::make_shared<DenseGroupedGemm>();
}

}  // namespace coeus::nn
