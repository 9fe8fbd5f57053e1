#pragma once
#include <coeus/nn.h>

#include <memory>
#include <string>

#include "core/torch.h"

namespace coeus::inference {

// The smallest chain with everything a Llama has: two blocks, grouped queries, a head.
struct TinySizes {
  std::int64_t vocab = 257, dim = 16, heads = 4, kv_heads = 2, ffn = 24, layers = 2;
};

class TinyBlock : public nn::Layer {
 public:
  explicit TinyBlock(const TinySizes& s)
      : norm1_(child<nn::RmsNorm>("norm1", s.dim)),
        attention_(child<nn::SelfAttention>("attention", s.dim, s.heads, options(s))),
        norm2_(child<nn::RmsNorm>("norm2", s.dim)),
        mlp_(child<nn::SwiGlu>("mlp", s.dim, s.ffn)) {}

 private:
  static nn::AttentionOptions options(const TinySizes& s) {
    nn::AttentionOptions options;
    options.num_kv_heads = s.kv_heads;
    return options;
  }
  Tensor forward(const Tensor& x, const Batch& batch) override {
    const Tensor h = x + attention_(norm1_(x), batch);
    return h + mlp_(norm2_(h));
  }
  nn::RmsNorm& norm1_;
  nn::SelfAttention& attention_;
  nn::RmsNorm& norm2_;
  nn::SwiGlu& mlp_;
};

struct TinyModel : nn::Model {
  explicit TinyModel(const TinySizes& s = {}) {
    append<nn::Embedding>("embed", s.vocab, s.dim);
    for (std::int64_t i = 0; i < s.layers; ++i) append<TinyBlock>("blocks." + std::to_string(i), s);
    append<nn::RmsNorm>("norm", s.dim);
    append<nn::LmHead>("head", s.dim, s.vocab);
  }
};

// fp32 on CPU, the same weights each time, large enough that the logits differ clearly.
inline std::unique_ptr<TinyModel> make_tiny_model() {
  const at::NoGradGuard no_grad;
  auto model = std::make_unique<TinyModel>();
  nn::materialize(*model, at::kCPU, at::kFloat);
  at::manual_seed(7);
  for (auto& [name, p] : model->parameters()) {
    name.find("norm") == std::string::npos ? p->normal_(0, 0.3) : p->fill_(1);
  }
  return model;
}

// Logits of every position, nothing cached.
inline Tensor full_logits(nn::Model& model, const Tensor& tokens_BT) {
  const at::NoGradGuard no_grad;
  Batch batch;
  batch.tokens = tokens_BT;
  batch.positions = at::arange(tokens_BT.size(1)).expand_as(tokens_BT);
  return model.forward(tokens_BT, batch);
}

}  // namespace coeus::inference
