#pragma once
#include <coeus/nn/layers.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace coeus::nn {

enum class RouterScore { softmax, sigmoid };

struct MoeOptions {
  std::int64_t num_experts = 8, top_k = 2;
  std::int64_t ffn_dim = 0;         // of one expert
  std::int64_t shared_ffn_dim = 0;  // 0: no shared expert
  RouterScore score = RouterScore::softmax;
  bool normalize_weights = true;  // the k weights of a token sum to 1
  double route_scale = 1.0;       // of the weights, after that
  // Experts in equal groups; a token chooses among the best groups only, a group's score is the sum
  // of its two best experts'. https://arxiv.org/abs/2412.19437
  std::int64_t num_groups = 1, num_limited_groups = 1;
  double aux_loss_alpha = 0;    // of the auxiliary loss per sequence; 0: none
  bool bias_balancing = false;  // balance by a bias of the selection, a buffer of the router
  double bias_update_speed = 1e-3;
  double down_std = 0.02;
};

// What a router says of each token. B sequences, T tokens here, E experts, k chosen.
struct Routing {
  Tensor scores;   // [B, T, E] fp32, softmax or sigmoid of the logits
  Tensor indices;  // [B, T, k] int64, best first; of equal scores the lowest index
  Tensor weights;  // [B, T, k] fp32
};
template <>
struct TensorPack<Routing> {
  static Tensors pack(Routing r) {
    return {std::move(r.scores), std::move(r.indices), std::move(r.weights)};
  }
  static Routing unpack(Tensors t) { return {std::move(t[0]), std::move(t[1]), std::move(t[2])}; }
};

// Scores, choice and weights in fp32. While training it counts the tokens that each expert got in
// the step.
class Router : public LayerOf<Routing(const Tensor&, const Batch&)> {
 public:
  // Parameter weight [E, D], always fp32; with bias balancing a buffer bias [E].
  Router(std::int64_t dim, const MoeOptions& options);
  bool sums_counts() const override { return options_.bias_balancing; }
  std::vector<Tensor> step_counts() override;  // [E] int64
  void end_of_step(const Tensor& applied) override;

  // Tokens per expert in the last whole step, over the ranks whose counts were summed; zeros before
  // the first. Reads the device.
  struct Load {
    double mean = 0, max = 0;
  };
  Load load() const;

 private:
  Routing forward(const Tensor& x_BTD, const Batch& batch) override;
  Tensor choose(const Tensor& scores_NE) const;
  void count(const Tensor& indices);

  MoeOptions options_;
  Parameter& weight_;       // [E, D]
  Buffer* bias_ = nullptr;  // [E]; null without bias balancing
  std::shared_ptr<Gemm> gemm_;
  Tensor counts_, last_counts_;  // [E] int64 of this step and the last
};

// The three products of a linear layer of each expert over its own rows: x [M, I] holds counts[e]
// rows for expert e, one expert after another, w is the stack [E·O, I] of E = counts.size()
// matrices.
class GroupedGemm {
 public:
  virtual ~GroupedGemm() = default;
  using Counts = std::vector<std::int64_t>;
  virtual Tensor forward(const Tensor& x_MI, const Tensor& w_EOI, const Counts& counts) = 0;
  virtual Tensor input_gradient(const Tensor& dy_MO, const Tensor& w_EOI, const Counts& counts) = 0;
  // += dyᵀ·x, expert by expert. The whole stack is written, idle experts too, unless there are no
  // rows at all.
  virtual void weight_gradient(const Tensor& dy_MO, const Tensor& x_MI, const Counts& counts,
                               GradTarget& target) = 0;
};
std::shared_ptr<GroupedGemm> dense_grouped_gemm();

// SwiGLU of each expert over its own rows, [M, D] -> [M, D]; counts as above. How many experts it
// holds and their size it reads from its tensors: expert parallelism keeps some of them.
class Experts : public LayerOf<Tensor(const Tensor&, const std::vector<std::int64_t>&)> {
 public:
  // Parameters gate_up.weight, segments E.gate_proj.weight and E.up_proj.weight [F, D] of each
  // expert in turn, and down_proj.weight, segments E.down_proj.weight [D, F].
  Experts(std::int64_t dim, const MoeOptions& options);
  void set_gemm(std::shared_ptr<GroupedGemm> gemm) { gemm_ = std::move(gemm); }

 private:
  Tensor forward(const Tensor& x_MD, const std::vector<std::int64_t>& counts) override;
  Parameter& gate_up_;    // [E·2F, D]
  Parameter& down_proj_;  // [E·D, F]
  std::shared_ptr<GroupedGemm> gemm_ = dense_grouped_gemm();
};

// Runs the local experts over rows [M, D] grouped by local expert, counts[e] rows for expert e.
using ExpertRows = std::function<Tensor(const Tensor&, const std::vector<std::int64_t>&)>;

// Rows x [N, D], indices [N, k] int64, weights [N, k] fp32, experts -> y [N, D], the weighted sum
// of the chosen experts' results in the order of the slots. A style may replace it.
using MoeDispatch = LayerOf<Tensor(const Tensor&, const Tensor&, const Tensor&, const ExpertRows&)>;

// All experts are here.
class LocalDispatch : public MoeDispatch {
 public:
  explicit LocalDispatch(std::int64_t num_experts) : num_experts_(num_experts) {}

 private:
  Tensor forward(const Tensor& x_ND, const Tensor& indices_Nk, const Tensor& weights_Nk,
                 const ExpertRows& experts) override;
  std::int64_t num_experts_;
};

// Tokens per expert and sequence [B, E] int64 -> the same, summed over the ranks that hold parts of
// these sequences. A style may replace it.
using MoeCounts = SimpleLayer;
class LocalCounts : public MoeCounts {
  Tensor forward(const Tensor& counts_BE) override { return counts_BE; }
};

// A mixture of experts, dropless: [B, T, D] -> [B, T, D]. Children, in this order: "router",
// "experts", the seams "dispatch" and "counts", and with shared_ffn_dim a SwiGlu "shared". Initial
// weights are normal, std 0.02, down_proj's down_std. The auxiliary loss is
// α·E/(k·T²·sequences of the step)·Σ_e count_e·Σ_t p_te of each sequence, p the scores that sum to
// 1; it is fed inside, by add_loss. https://arxiv.org/abs/1701.06538
class Moe : public Layer {
 public:
  Moe(std::int64_t dim, const MoeOptions& options);
  const Router& router() const { return router_; }

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override;
  Tensor auxiliary_loss(const Routing& routing, const Batch& batch);

  MoeOptions options_;
  Router& router_;
  Experts& experts_;
  Seam<MoeDispatch> dispatch_;
  Seam<MoeCounts> counts_;
  SwiGlu* shared_ = nullptr;
};

}  // namespace coeus::nn
