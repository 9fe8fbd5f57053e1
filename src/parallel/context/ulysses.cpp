#include <numeric>

#include "base/error.h"
#include "core/torch.h"
#include "nn/ops/node.h"
#include "parallel/context/cores.h"
#include "parallel/context/zigzag.h"

// Each rank gives its tokens of other ranks' heads for other ranks' tokens of its own heads,
// attends whole sequences with H/n heads, and gives them back (https://arxiv.org/abs/2309.14509).
namespace coeus::parallel {
namespace {

Tensor exchange(comm::Communicator& cp, const Tensor& one_row_a_rank) {
  const Tensor received = at::empty_like(one_row_a_rank);
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(cp.size()), 1);
  cp.all_to_all(received, one_row_a_rank, rows, rows, {.label = "attention.core ulysses"}).wait();
  return received;
}

// [B, T, n, W], part i for rank i -> [B, L, W], and back; each is the other's gradient.
Tensor tokens_for_heads(comm::Communicator& cp, const Tensor& x_BTnW) {
  return to_sequence_order(exchange(cp, x_BTnW.permute({2, 0, 1, 3}).contiguous()));
}
Tensor heads_for_tokens(comm::Communicator& cp, const Tensor& x_BLW) {
  return exchange(cp, to_rank_order(x_BLW, cp.size())).permute({1, 2, 0, 3});
}

using Trade = Tensor (*)(comm::Communicator&, const Tensor&);

struct TradeNode : nn::ops::Node {
  comm::Communicator* cp = nullptr;
  Trade backward = nullptr;
  std::vector<std::int64_t> sizes;  // of the output
  at::TensorOptions options;

  std::string name() const override { return "coeus::UlyssesExchange"; }
  nn::ops::variable_list apply(nn::ops::variable_list&& gradients) override {
    const nn::ops::BelowAutograd guard;
    // Other ranks wait for this one's part, also where it is 0.
    const Tensor dy = gradients[0].defined() ? gradients[0] : at::zeros(sizes, options);
    return {backward(*cp, dy)};
  }
};

Tensor trade(comm::Communicator& cp, const Tensor& x, Trade forward, Trade backward) {
  Tensor y;
  {
    const nn::ops::BelowAutograd guard;
    y = forward(cp, x);
  }
  if (nn::ops::forms_gradients(x)) {
    auto node = nn::ops::make_node<TradeNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->cp = &cp;
    node->backward = backward;
    node->sizes = y.sizes().vec();
    node->options = y.options().requires_grad(std::nullopt);
    torch::autograd::set_history(y, node);
  }
  return y;
}

class UlyssesCore : public nn::AttentionCore {
 public:
  explicit UlyssesCore(comm::Communicator& cp) : cp_(cp) {}

 private:
  nn::AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v,
                           const nn::AttentionContext& context) override;

  // [B, T, heads, K] -> [B, T, n, heads/n·K]
  Tensor by_rank(const Tensor& x) const { return x.unflatten(2, {cp_.size(), -1}).flatten(3); }

  comm::Communicator& cp_;
  nn::DenseAttentionCore dense_;
};

// Every rank needs the key-value heads of its queries: as many copies of each as make their number
// one that the ranks divide.
Tensor repeat_heads(const Tensor& x_BTGK, std::int64_t degree) {
  const auto groups = x_BTGK.size(2), copies = degree / std::gcd(groups, degree);
  if (copies == 1) return x_BTGK;
  return x_BTGK.unsqueeze(3).expand({-1, -1, -1, copies, -1}).flatten(2, 3);
}

nn::AttentionOut UlyssesCore::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const nn::AttentionContext& context) {
  const std::int64_t n = cp_.size(), heads = q.size(2);
  COEUS_ASSERT(heads % n == 0, "{} heads over {} ranks", heads, n);
  const Tensor keys = repeat_heads(k, n), values = repeat_heads(v, n);
  const auto groups = keys.size(2), q_dim = q.size(3), v_dim = v.size(3);
  const Tensor qkv_BLW = trade(cp_, at::cat({by_rank(q), by_rank(keys), by_rank(values)}, -1),
                               tokens_for_heads, heads_for_tokens);
  const auto parts =
      qkv_BLW.split_with_sizes({heads / n * q_dim, groups / n * q_dim, groups / n * v_dim}, -1);
  const auto attended =
      dense_(parts[0].unflatten(-1, {-1, q_dim}), parts[1].unflatten(-1, {-1, q_dim}),
             parts[2].unflatten(-1, {-1, v_dim}), whole_context(context, q.size(1), n, cp_.rank()));
  const Tensor out = trade(cp_, attended.out.flatten(2), heads_for_tokens, tokens_for_heads);
  const Tensor lse = trade(cp_, attended.lse.transpose(1, 2), heads_for_tokens, tokens_for_heads);
  return {out.flatten(2).unflatten(-1, {heads, v_dim}), lse.flatten(2).transpose(1, 2)};
}

}  // namespace

std::unique_ptr<nn::AttentionCore> make_ulysses_core(comm::Communicator& cp) {
  return std::make_unique<UlyssesCore>(cp);
}

}  // namespace coeus::parallel
