#pragma once
#include <coeus/nn/model.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace coeus::inference {

struct EvaluationResult {
  double loss_sum = 0;            // nats
  std::int64_t valid_tokens = 0;  // those predicted
  std::int64_t bytes = 0;         // of text that they stand for
  double loss() const;            // nats a token
  double perplexity() const;
  double bits_per_byte() const;
};

struct EvaluateOptions {
  std::int64_t batch_size = 8;   // sequences at a time
  std::int64_t max_samples = 0;  // 0: all of the data set
  std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto, auto) {};
};

// The loss over each sample of the data set once. Throws DataError where no token can be predicted.
EvaluationResult evaluate(nn::Model& model, const data::Dataset& dataset,
                          const data::Tokenizer& tokenizer, at::Device device,
                          const EvaluateOptions& options);

// All tokens of `stream`, a data set of one-token samples, as windows of at most `length` tokens
// that share one token with the next: each token but the first is predicted once. The last is
// filled up with ignored labels.
std::unique_ptr<data::Dataset> in_windows(std::unique_ptr<data::Dataset> stream,
                                          std::int64_t length);

}  // namespace coeus::inference
