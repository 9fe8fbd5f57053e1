#pragma once
#include <coeus/nn/model.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "inference/sampling.h"

namespace coeus::inference {

// The keys and values of every attention in a model, so that a token is run once. It takes the
// place of each child `core` (the seam of nn/attention.h) for good: the model is then one that
// decodes.
class KvCache {
 public:
  struct State {
    std::int64_t capacity = 0, length = 0;  // tokens; all attentions hold the same number
  };

  // At most `capacity` tokens of each of the sequences that the first call brings.
  KvCache(nn::Model& model, std::int64_t capacity);
  void clear() { state_->length = 0; }
  std::int64_t length() const { return state_->length; }
  std::int64_t capacity() const { return state_->capacity; }

  // Logits [B, vocabulary] after tokens [B, T] that follow what is cached; T is 1 unless nothing
  // is.
  Tensor forward(const Tensor& tokens_BT);

 private:
  nn::Model& model_;
  std::shared_ptr<State> state_;
};

struct GenerateOptions {
  std::int64_t max_tokens = 128;
  std::int64_t vocab_size =
      0;  // the model may know more tokens than the tokenizer; 0: all are drawn
  std::optional<std::int64_t> stop_token = {};  // ends the text and is not part of it
  SamplingOptions sampling;
};

// Continues `prompt`; `on_token` sees each new token as it is drawn. The cache must hold both.
std::vector<std::int64_t> generate(KvCache& cache, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options, at::Device device,
                                   const std::function<void(std::int64_t)>& on_token = {});

}  // namespace coeus::inference
