#include "inference/decode.h"

#include <coeus/nn/attention.h>

#include <algorithm>

#include "base/error.h"
#include "core/torch.h"

// B sequences, T new tokens, S cached and new tokens, H heads, G key-value heads, K head dim
namespace coeus::inference {
namespace {

// Appends k and v to its cache, then lets the core it replaced see all of them.
class CachingAttentionCore : public nn::AttentionCore {
 public:
  CachingAttentionCore(std::shared_ptr<KvCache::State> state) : state_(std::move(state)) {}

 private:
  nn::AttentionOut forward(const Tensor& q_BTHK, const Tensor& k_BTGK, const Tensor& v_BTGK,
                           const nn::AttentionContext& context) override {
    const std::int64_t begin = state_->length, count = q_BTHK.size(1);
    COEUS_ASSERT(begin + count <= state_->capacity, "the cache holds {} tokens", state_->capacity);
    COEUS_ASSERT(begin == 0 || count == 1, "{} tokens behind {} cached ones", count, begin);
    COEUS_ASSERT(context.mask.causal && !context.cu_seqlens.defined(), "a cache of one document");
    nn::AttentionContext seen = context;
    seen.mask.causal = count > 1;  // one token sees everything before it: no mask
    return inner_(q_BTHK, append(k_, k_BTGK, begin), append(v_, v_BTGK, begin), seen);
  }

  Tensor append(Tensor& cache_BSGK, const Tensor& x_BTGK, std::int64_t begin) const {
    if (!cache_BSGK.defined() || cache_BSGK.size(0) != x_BTGK.size(0)) {
      cache_BSGK = at::empty({x_BTGK.size(0), state_->capacity, x_BTGK.size(2), x_BTGK.size(3)},
                             x_BTGK.options());
    }
    cache_BSGK.narrow(1, begin, x_BTGK.size(1)).copy_(x_BTGK);
    return cache_BSGK.narrow(1, 0, begin + x_BTGK.size(1));
  }

  std::shared_ptr<KvCache::State> state_;
  nn::DenseAttentionCore inner_;
  Tensor k_, v_;
};

bool has_core(const nn::LayerBase& layer) {
  for (const auto& child : layer.children()) {
    if (child->name == "core" && dynamic_cast<nn::AttentionCore*>(child->layer.get())) return true;
  }
  return false;
}

}  // namespace

KvCache::KvCache(nn::Model& model, std::int64_t capacity)
    : model_(model), state_(std::make_shared<State>(State{.capacity = capacity})) {
  COEUS_ASSERT(model.chain().size() >= 2, "a cache needs a chain with a head");
  std::vector<nn::LayerBase*> holders;
  for (const auto& link : model.chain()) {
    link.layer->visit(link.name, [&](const std::string&, nn::LayerBase& layer) {
      if (has_core(layer)) holders.push_back(&layer);
    });
  }
  for (nn::LayerBase* holder : holders) {
    holder->replace_child("core", std::make_unique<CachingAttentionCore>(state_));
  }
}

Tensor KvCache::forward(const Tensor& tokens_BT) {
  const at::NoGradGuard no_grad;
  const std::int64_t begin = state_->length, count = tokens_BT.size(1);
  Batch batch;
  batch.tokens = tokens_BT;
  batch.positions = at::arange(begin, begin + count, tokens_BT.options()).expand_as(tokens_BT);
  const std::size_t head = model_.chain().size() - 1;
  Tensor x_BTD = model_.run(0, head, tokens_BT, batch);
  // The head runs on the last token alone: all logits of a long prompt are gigabytes.
  x_BTD = x_BTD.narrow(1, count - 1, 1);
  batch.tokens = tokens_BT.narrow(1, count - 1, 1);
  batch.positions = batch.positions.narrow(1, count - 1, 1);
  const Tensor logits_B1V = model_.run(head, head + 1, x_BTD, batch);
  state_->length += count;
  return logits_B1V.squeeze(1);
}

std::vector<std::int64_t> generate(KvCache& cache, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options, at::Device device,
                                   const std::function<void(std::int64_t)>& on_token) {
  check(options.sampling);
  if (prompt.empty()) throw UsageError("the prompt has no tokens: there is nothing to continue");
  const RandomKey key = make_random_key(options.sampling.seed, 0, "generate");
  std::vector<std::int64_t> tokens;
  cache.clear();
  Tensor input = at::tensor(prompt, at::kLong);
  for (std::int64_t i = 0; i < options.max_tokens; ++i) {
    const Tensor logits =
        cache.forward(input.unsqueeze(0).to(device)).squeeze(0).to(at::kCPU, at::kFloat);
    const Tensor flat = logits.contiguous();
    const std::int64_t size =
        options.vocab_size > 0 ? std::min(options.vocab_size, flat.numel()) : flat.numel();
    const std::span<const float> values(flat.const_data_ptr<float>(),
                                        static_cast<std::size_t>(size));
    const std::int64_t token = sample(values, options.sampling, key, static_cast<std::uint64_t>(i));
    if (token == options.stop_token) break;
    tokens.push_back(token);
    if (on_token) on_token(token);
    input = at::tensor({token}, at::kLong);
  }
  return tokens;
}

}  // namespace coeus::inference
