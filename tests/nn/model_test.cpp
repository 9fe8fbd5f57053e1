#include <coeus/nn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/torch.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"

namespace coeus {
namespace {

models::LlamaConfig tiny(bool tied) {
  models::LlamaConfig c;
  c.dim = 24;
  c.num_layers = 2;
  c.num_heads = 6;
  c.num_kv_heads = 2;
  c.ffn_dim = 40;
  c.vocab_size = 37;
  c.rope_theta = 500;
  c.tie_embeddings = tied;
  return c;
}

struct Weights {
  std::map<std::string, Tensor> by_name;  // fp64 leaves
  const Tensor& operator()(const std::string& name) const { return by_name.at(name); }
};

Tensor norm(const Tensor& x, const Tensor& w) {
  return x * (x.pow(2).mean(-1, true) + 1e-5).rsqrt() * w;
}

Tensor rope(const Tensor& x_BTHK, const Tensor& positions, double theta) {
  const auto half = x_BTHK.size(-1) / 2;
  const Tensor frequencies =
      at::pow(theta, at::arange(half, at::kDouble) * (-1.0 / static_cast<double>(half)));
  const Tensor angle = (positions.to(at::kDouble).unsqueeze(-1) * frequencies).unsqueeze(2);
  const Tensor a = x_BTHK.slice(-1, 0, half), b = x_BTHK.slice(-1, half);
  return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, -1);
}

// The model of the paper in plain libtorch, fp64.
Tensor reference_logits(const models::LlamaConfig& c, const Weights& w, const Batch& batch,
                        const Tensor& allowed_BTT) {
  Tensor x = at::embedding(w("embed.weight"), batch.tokens);
  const auto K = c.head_dim();
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    const std::string b = "blocks." + std::to_string(i) + ".";
    const Tensor n = norm(x, w(b + "norm1.weight"));
    auto parts = at::linear(n, w(b + "attention.qkv.weight"))
                     .split_with_sizes({c.dim, c.num_kv_heads * K, c.num_kv_heads * K}, -1);
    auto heads = [&](const Tensor& t) { return t.unflatten(-1, {-1, K}); };
    const Tensor q = rope(heads(parts[0]), batch.positions, c.rope_theta).transpose(1, 2);
    const auto repeats = c.num_heads / c.num_kv_heads;
    const Tensor k = rope(heads(parts[1]), batch.positions, c.rope_theta)
                         .repeat_interleave(repeats, 2)
                         .transpose(1, 2);
    const Tensor v = heads(parts[2]).repeat_interleave(repeats, 2).transpose(1, 2);
    Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(K));
    scores = scores.masked_fill(allowed_BTT.logical_not().unsqueeze(1), -1e300);
    const Tensor attended = at::matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2);
    x = x + at::linear(attended, w(b + "attention.o_proj.weight"));
    const auto gate_up =
        at::linear(norm(x, w(b + "norm2.weight")), w(b + "mlp.gate_up.weight")).chunk(2, -1);
    x = x + at::linear(at::silu(gate_up[0]) * gate_up[1], w(b + "mlp.down_proj.weight"));
  }
  return at::linear(norm(x, w("norm.weight")),
                    w(c.tie_embeddings ? "embed.weight" : "head.weight"));
}

struct Parity : ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Parity, loss_and_every_gradient_equal_those_of_plain_libtorch_in_fp64) {
  const auto [tied, documents] = GetParam();
  const auto c = tiny(tied);
  models::Llama model(c);
  nn::materialize(model, at::kCPU, at::kFloat);
  Weights reference;
  at::manual_seed(1);
  for (auto& [name, p] : model.parameters()) {
    at::NoGradGuard no_grad;
    p->normal_(name.find("norm") != std::string::npos ? 1.0 : 0.0, 0.3);
    reference.by_name[name] = p->detach().to(at::kDouble).requires_grad_();
  }
  const std::int64_t B = 2, T = 9;
  Batch batch{.tokens = at::randint(c.vocab_size, {B, T}, at::kLong),
              .labels = at::randint(c.vocab_size, {B, T}, at::kLong),
              .positions = at::arange(T).expand({B, T}).contiguous()};
  batch.labels[1][3] = -100;
  batch.loss_scale = at::full({}, 1.0 / 17, at::kFloat);
  Tensor document = at::zeros({B, T}, at::kLong);
  if (documents) {
    batch.cu_seqlens = at::tensor({0, 4, 9, 18}, at::kInt);
    batch.max_document = 9;
    document[0].slice(0, 4, T).fill_(1);
    batch.positions[0].slice(0, 4, T).copy_(at::arange(5));
  }
  const Tensor allowed = at::ones({T, T}, at::kBool)
                             .tril()
                             .unsqueeze(0)
                             .logical_and(document.unsqueeze(-1).eq(document.unsqueeze(-2)));

  const LossSum loss = model.loss(model.forward(batch.tokens, batch), batch);
  loss.sum.backward();
  const Tensor expected =
      at::cross_entropy_loss(reference_logits(c, reference, batch, allowed).flatten(0, 1),
                             batch.labels.flatten(), {}, 2, -100);
  (expected / 17).backward();

  EXPECT_EQ(loss.count.item<std::int64_t>(), 17);
  EXPECT_NEAR(loss.sum.item<double>() / expected.item<double>(), 1.0, 1e-6);
  for (auto& [name, p] : model.parameters()) {
    const Tensor g = reference(name).grad();
    EXPECT_LT((p->grad().to(at::kDouble) - g).norm().item<double>(), 2e-5 * g.norm().item<double>())
        << name;
  }
  batch.labels = Tensor();
  at::NoGradGuard no_grad;
  const Tensor logits = model.forward(batch.tokens, batch),
               wanted = reference_logits(c, reference, batch, allowed);
  EXPECT_LT((logits - wanted).abs().max().item<double>(), 1e-4);
}
INSTANTIATE_TEST_SUITE_P(Llama, Parity, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(Model, holds_what_its_spec_says_name_by_name_and_shape_by_shape) {
  for (const char* preset : {"debug", "15m", "3.2-1b", "3.1-8b"}) {
    models::LlamaModelConfig config;
    ASSERT_TRUE(config.apply_preset(preset));
    const models::Llama model(config.config);  // null storages: no memory, whatever the size
    const ModelSpec spec = config.spec();
    const auto built = model.layer_specs();
    ASSERT_EQ(built.size(), spec.layers.size()) << preset;
    for (std::size_t i = 0; i < built.size(); ++i) {
      EXPECT_EQ(built[i].name, spec.layers[i].name);
      EXPECT_EQ(built[i].parameters, spec.layers[i].parameters) << preset << " " << built[i].name;
    }
    EXPECT_EQ(model.ties(), spec.ties);
  }
}

TEST(Rope, scaling_stretches_long_wavelengths_only) {
  const auto plain = nn::rope_inverse_frequencies(128, {.theta = 500000});
  const auto scaled = nn::rope_inverse_frequencies(
      128, {.theta = 500000, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4});
  EXPECT_EQ(plain.front(), scaled.front());
  EXPECT_FLOAT_EQ(plain.back() / 8, scaled.back());
  // Published in transformers for Llama-3.1 at index 30 and 35.
  EXPECT_GT(scaled[30], plain[30] / 8);
  EXPECT_LT(scaled[35], plain[35]);
}

TEST(AddLoss, feeds_the_auxiliary_loss_with_one_and_leaves_the_value) {
  Tensor x = at::ones({3}, at::kFloat).requires_grad_(),
         a = at::full({}, 2.0, at::kFloat).requires_grad_();
  const Tensor y = nn::add_loss(x * 2, a * a);
  EXPECT_TRUE(y.equal(x * 2));
  y.sum().backward();
  EXPECT_EQ(a.grad().item<float>(), 4.0f);
  EXPECT_EQ(x.grad()[0].item<float>(), 2.0f);
}

struct NormThenLinear : nn::Model {
  NormThenLinear() {
    append<nn::RmsNorm>("norm", 6);
    linear = &append<nn::Linear>("linear", 6, 4);
  }
  nn::Linear* linear;
};

TEST(SelectiveRecompute, a_linear_keeps_no_norm_result_and_gives_the_same_gradients) {
  std::vector<Tensor> weights, inputs;
  for (const bool again : {false, true}) {
    at::manual_seed(5);
    NormThenLinear model;
    nn::materialize(model, at::kCPU, at::kFloat);
    at::AutoGradMode grad(true);
    for (auto& [name, p] : model.parameters()) {
      at::NoGradGuard no_grad;
      p->normal_();
    }
    if (again) model.linear->recompute_input();
    const Tensor x = at::randn({3, 6}).requires_grad_();
    const Tensor y = model.run(0, 1, x, {});
    const Tensor z = model.run(1, 2, y, {});
    const auto holders = y.use_count();
    EXPECT_EQ(holders > 1, !again) << "what the linear keeps";
    z.pow(2).sum().backward();
    weights.push_back(model.linear->weight().grad().clone());
    inputs.push_back(x.grad().clone());
  }
  EXPECT_TRUE(weights[0].equal(weights[1]));
  EXPECT_TRUE(inputs[0].equal(inputs[1]));
}

}  // namespace
}  // namespace coeus
