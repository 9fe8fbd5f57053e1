#include "inference/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tests/inference/tiny_model.h"

namespace coeus::inference {
namespace {

std::int64_t token_at(std::int64_t i) {
  return (i * 31 + 7) % 128;  // ASCII: a byte each
}

// Samples of `length` tokens of one stream; the last two labels of each may be ignored.
class Stream : public data::Dataset {
 public:
  Stream(std::int64_t size, std::int64_t length, std::int64_t ignored = 0)
      : size_(size), length_(length), ignored_(ignored) {}
  std::int64_t size() const override { return size_; }
  std::int64_t num_tokens() const override { return size_ * length_ + 1; }
  std::int64_t sequence_length() const override { return length_; }
  std::int64_t index_of(std::int64_t n) const override { return n; }
  data::SampleInfo read(std::int64_t n, data::SampleView into) const override {
    for (std::int64_t i = 0; i < length_; ++i) {
      into.tokens[i] = token_at(n * length_ + i);
      into.labels[i] = i < length_ - ignored_ ? token_at(n * length_ + i + 1) : data::kIgnoredLabel;
      into.positions[i] = i;
    }
    return {.valid_tokens = length_ - ignored_, .document_lengths = {}};
  }

 private:
  std::int64_t size_, length_, ignored_;
};

double reference_loss(nn::Model& model, const data::Dataset& dataset) {
  double sum = 0;
  const std::int64_t length = dataset.sequence_length();
  for (std::int64_t n = 0; n < dataset.size(); ++n) {
    const Tensor rows = at::empty({3, length}, at::kLong);
    std::int64_t* p = rows.data_ptr<std::int64_t>();
    dataset.read(n, {p, p + length, p + 2 * length});
    const Tensor logits = full_logits(model, rows[0].unsqueeze(0)).squeeze(0);
    sum += at::cross_entropy_loss(logits, rows[1], {}, at::Reduction::Sum).item<double>();
  }
  return sum;
}

TEST(Evaluate, SumsTheCrossEntropyOfEachValidLabelOnce) {
  const auto model = make_tiny_model();
  const auto tokenizer = data::load_tokenizer("byte");
  const Stream stream(5, 9, 2);
  const auto result = evaluate(*model, stream, *tokenizer, at::kCPU, {.batch_size = 2});
  const double expected = reference_loss(*model, stream);
  EXPECT_EQ(result.valid_tokens, 5 * 7);
  EXPECT_EQ(result.bytes, 5 * 7);
  EXPECT_NEAR(result.loss_sum, expected, 1e-5 * expected);
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(result.loss()));
  EXPECT_DOUBLE_EQ(result.bits_per_byte(), result.loss() / std::numbers::ln2);
}

// "é" is two bytes; every sample of three tokens cuts one.
TEST(Evaluate, CharactersThatSamplesCutAreCountedWhole) {
  class Accents : public Stream {
   public:
    Accents() : Stream(10, 3) {}
    data::SampleInfo read(std::int64_t n, data::SampleView into) const override {
      const auto info = Stream::read(n, into);
      for (std::int64_t i = 0; i < 3; ++i) into.labels[i] = (n * 3 + i) % 2 == 0 ? 0xC3 : 0xA9;
      return info;
    }
  };
  const auto model = make_tiny_model();
  const auto tokenizer = data::load_tokenizer("byte");
  EXPECT_EQ(evaluate(*model, Accents(), *tokenizer, at::kCPU, {}).bytes, 30);
}

TEST(Evaluate, TheBatchSizeDoesNotMatter) {
  const auto model = make_tiny_model();
  const auto tokenizer = data::load_tokenizer("byte");
  const Stream stream(7, 8);
  const auto one = evaluate(*model, stream, *tokenizer, at::kCPU, {.batch_size = 1});
  const auto all = evaluate(*model, stream, *tokenizer, at::kCPU, {.batch_size = 100});
  EXPECT_NEAR(one.loss(), all.loss(), 1e-6 * one.loss());
  EXPECT_EQ(one.valid_tokens, all.valid_tokens);
}

TEST(Evaluate, StopsAfterTheSamplesAskedFor) {
  const auto model = make_tiny_model();
  const auto tokenizer = data::load_tokenizer("byte");
  const EvaluateOptions options{.batch_size = 2, .max_samples = 3};
  const auto result = evaluate(*model, Stream(7, 8), *tokenizer, at::kCPU, options);
  EXPECT_EQ(result.valid_tokens, 24);
}

TEST(Evaluate, DataWithoutALabelIsRefused) {
  const auto model = make_tiny_model();
  const auto tokenizer = data::load_tokenizer("byte");
  EXPECT_THROW(evaluate(*model, Stream(2, 8, 8), *tokenizer, at::kCPU, {}), DataError);
}

TEST(Windows, PredictEveryTokenButTheFirstOnce) {
  for (std::int64_t tokens : {2, 8, 9, 10, 17, 20}) {
    const auto windows = in_windows(std::make_unique<Stream>(tokens - 1, 1), 8);
    std::int64_t next = 1, valid = 0;
    for (std::int64_t n = 0; n < windows->size(); ++n) {
      std::int64_t inputs[8], labels[8], positions[8];
      valid += windows->read(n, {inputs, labels, positions}).valid_tokens;
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(positions[i], i);
        if (labels[i] == data::kIgnoredLabel) continue;
        EXPECT_EQ(inputs[i], token_at(next - 1));
        EXPECT_EQ(labels[i], token_at(next++));
      }
    }
    EXPECT_EQ(next, tokens);
    EXPECT_EQ(valid, tokens - 1);
  }
}

}  // namespace
}  // namespace coeus::inference
