// Mla, and SelfAttention with normed queries and keys, against plain libtorch in fp64. B batch, T
// tokens, H heads, K head dim.
#include <coeus/nn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/torch.h"
#include "nn/attention/yarn.h"

namespace coeus {
namespace {

constexpr std::int64_t kDim = 24, kHeads = 4, kBatch = 2, kTokens = 7;

template <class Attention, class Options>
struct OneLayer : nn::Model {
  explicit OneLayer(const Options& options) {
    append<Attention>("attention", kDim, kHeads, options);
  }
};

Tensor norm(const Tensor& x, const Tensor& w, double eps) {
  return x * (x.pow(2).mean(-1, true) + eps).rsqrt() * w;
}

Tensor angles(const Tensor& positions_BT, const std::vector<float>& inverse_frequencies) {
  return (positions_BT.to(at::kDouble).unsqueeze(-1) *
          at::tensor(inverse_frequencies).to(at::kDouble))
      .unsqueeze(2);
}

Tensor turn_halves(const Tensor& x_BTHK, const Tensor& angle) {
  const auto halves = x_BTHK.chunk(2, -1);
  return at::cat({halves[0] * angle.cos() - halves[1] * angle.sin(),
                  halves[1] * angle.cos() + halves[0] * angle.sin()},
                 -1);
}

// Pairs (0, 1), (2, 3) … each where it was.
Tensor turn_neighbours(const Tensor& x_BTHK, const Tensor& angle) {
  const Tensor pairs = x_BTHK.unflatten(-1, {-1, 2});
  const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return at::stack({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, -1)
      .flatten(-2);
}

Tensor attend(const Tensor& q_BTHK, const Tensor& k_BTHK, const Tensor& v_BTHK, double scale) {
  const Tensor later = at::ones({q_BTHK.size(1), q_BTHK.size(1)}, at::kBool).triu(1);
  const Tensor scores =
      (at::matmul(q_BTHK.transpose(1, 2), k_BTHK.transpose(1, 2).transpose(-1, -2)) * scale)
          .masked_fill(later, -1e300);
  return at::matmul(scores.softmax(-1), v_BTHK.transpose(1, 2)).transpose(1, 2).flatten(2);
}

using Weights = std::map<std::string, Tensor>;  // fp64 leaves by the name below the layer

// Value and every gradient of sum(y·random), ours in fp32 against `reference` in fp64.
template <class Reference>
void expect_parity(nn::Model& model, Reference reference) {
  nn::materialize(model, at::kCPU, at::kFloat);
  at::manual_seed(3);
  Weights w;
  const std::string prefix = "attention.";
  for (auto& [name, p] : model.parameters()) {
    at::NoGradGuard no_grad;
    p->normal_(name.find("norm") != std::string::npos ? 1.0 : 0.0, 0.4);
    w[name.substr(prefix.size())] = p->detach().to(at::kDouble).requires_grad_();
  }
  Batch batch{.positions = at::arange(kTokens).expand({kBatch, kTokens}).contiguous()};
  batch.positions[1] += 3;
  const Tensor x = at::randn({kBatch, kTokens, kDim}).requires_grad_();
  const Tensor x_reference = x.detach().to(at::kDouble).requires_grad_();
  const Tensor y = model.forward(x, batch), expected = reference(x_reference, batch, w);
  const Tensor direction = at::randn_like(y);
  (y * direction).sum().backward();
  (expected * direction.to(at::kDouble)).sum().backward();
  EXPECT_LT((y - expected).abs().max().template item<double>(), 1e-4);
  const auto expect_close = [](const Tensor& ours, const Tensor& theirs, const std::string& name) {
    EXPECT_LT((ours.to(at::kDouble) - theirs).norm().template item<double>(),
              2e-5 * theirs.norm().template item<double>())
        << name;
  };
  expect_close(x.grad(), x_reference.grad(), "x");
  for (auto& [name, p] : model.parameters()) {
    expect_close(p->grad(), w.at(name.substr(prefix.size())).grad(), name);
  }
}

TEST(SelfAttention, norms_queries_and_keys_head_by_head_before_it_turns_them) {
  constexpr std::int64_t K = 10, kv_heads = 2;  // K is not kDim / kHeads
  OneLayer<nn::SelfAttention, nn::AttentionOptions> model({.num_kv_heads = kv_heads,
                                                           .head_dim = K,
                                                           .rope = {.theta = 500},
                                                           .qk_norm = true,
                                                           .norm_eps = 1e-3});
  expect_parity(model, [&](const Tensor& x, const Batch& batch, Weights& w) {
    const auto parts = at::linear(x, w["qkv.weight"])
                           .unflatten(-1, {-1, K})
                           .split_with_sizes({kHeads, kv_heads, kv_heads}, 2);
    const Tensor angle = angles(batch.positions, nn::rope_inverse_frequencies(K, {.theta = 500}));
    const Tensor q = turn_halves(norm(parts[0], w["q_norm.weight"], 1e-3), angle);
    const Tensor k = turn_halves(norm(parts[1], w["k_norm.weight"], 1e-3), angle);
    const auto repeat = [&](const Tensor& t) { return t.repeat_interleave(kHeads / kv_heads, 2); };
    return at::linear(attend(q, repeat(k), repeat(parts[2]), 1 / std::sqrt(10.0)),
                      w["o_proj.weight"]);
  });
}

struct Latent : ::testing::TestWithParam<std::tuple<int, double>> {};

TEST_P(Latent, attention_equals_plain_libtorch_in_fp64) {
  const auto [q_lora_rank, factor] = GetParam();
  constexpr std::int64_t N = 6, R = 4, V = 5, C = 8;
  nn::MlaOptions options{.q_lora_rank = q_lora_rank,
                         .kv_lora_rank = C,
                         .qk_nope_head_dim = N,
                         .qk_rope_head_dim = R,
                         .v_head_dim = V,
                         .rope_theta = 100,
                         .yarn = {.factor = factor,
                                  .mscale = 0.7,
                                  .mscale_all_dim = 1.1,
                                  .original_max_position_embeddings = 64},
                         .norm_eps = 1e-3};
  OneLayer<nn::Mla, nn::MlaOptions> model(options);
  expect_parity(model, [&](const Tensor& x, const Batch& batch, Weights& w) {
    const double growth = 0.1 * std::log(factor);  // ln 1 = 0
    const double length = (growth * 0.7 + 1) / (growth * 1.1 + 1);
    const Tensor angle =
        angles(batch.positions, nn::yarn_inverse_frequencies(R, 100, options.yarn));
    const Tensor q_all =
        q_lora_rank == 0
            ? at::linear(x, w["q_proj.weight"])
            : at::linear(norm(at::linear(x, w["q_a_proj.weight"]), w["q_a_norm.weight"], 1e-3),
                         w["q_b_proj.weight"]);
    const auto q = q_all.unflatten(-1, {kHeads, N + R}).split_with_sizes({N, R}, -1);
    const auto latent = at::linear(x, w["kv_a_proj.weight"]).split_with_sizes({C, R}, -1);
    const auto kv = at::linear(norm(latent[0], w["kv_a_norm.weight"], 1e-3), w["kv_b_proj.weight"])
                        .unflatten(-1, {kHeads, N + V})
                        .split_with_sizes({N, V}, -1);
    const Tensor k_rope = turn_neighbours(latent[1].unsqueeze(2), angle) * length;
    return at::linear(attend(at::cat({q[0], turn_neighbours(q[1], angle) * length}, -1),
                             at::cat({kv[0], k_rope.expand({-1, -1, kHeads, -1})}, -1), kv[1],
                             std::pow(growth * 1.1 + 1, 2) / std::sqrt(double{N + R})),
                      w["o_proj.weight"]);
  });
}
INSTANTIATE_TEST_SUITE_P(Mla, Latent,
                         ::testing::Combine(::testing::Values(0, 12),
                                            ::testing::Values(1.0, 40.0)));

TEST(Yarn, frequencies_are_those_of_DeepSeek_V3) {
  // As transformers 5 computes them: head dim 64, theta 10000, factor 40, 4096 tokens before.
  const nn::YarnOptions deepseek{.factor = 40};
  const auto f = nn::yarn_inverse_frequencies(64, 1e4, deepseek);
  ASSERT_EQ(f.size(), 32u);
  const auto plain = [](int i) { return std::pow(1e4, -2.0 * i / 64); };
  EXPECT_FLOAT_EQ(f[0], 1.0f);
  EXPECT_FLOAT_EQ(f[10], plain(10));  // the ramp begins at 10
  EXPECT_LT(f[11], plain(11));
  EXPECT_FLOAT_EQ(f[23], plain(23) / 40);  // and ends at 23
  EXPECT_FLOAT_EQ(f[31], plain(31) / 40);
  EXPECT_NEAR(f[16] / plain(16), 1 - (6.0 / 13) * (39.0 / 40), 1e-6);
  EXPECT_DOUBLE_EQ(nn::yarn_rotation_scale(deepseek), 1.0);
  EXPECT_NEAR(nn::yarn_score_scale(deepseek), std::pow(0.1 * std::log(40.0) + 1, 2), 1e-12);
}

TEST(Yarn, without_mscale_for_all_dimensions_the_rotated_parts_grow_and_scores_do_not) {
  const nn::YarnOptions options{.factor = 4, .mscale = 0, .mscale_all_dim = 0};
  EXPECT_DOUBLE_EQ(nn::yarn_rotation_scale(options), 0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(nn::yarn_score_scale(options), 1.0);
}

}  // namespace
}  // namespace coeus
