#include "inference/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::inference {
namespace {

// Samples [begin, end) as one batch on the host.
struct HostBatch {
  Batch batch;
  std::int64_t valid_tokens = 0;
};

// Counts the bytes of text that labels stand for. Samples follow each other in the text, so that
// the characters they cut are put together again.
class ByteCounter {
 public:
  explicit ByteCounter(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(const Tensor& labels) {
    const std::int64_t* values = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      if (values[i] == data::kIgnoredLabel) continue;
      ids_.push_back(static_cast<std::int32_t>(values[i]));
    }
    if (ids_.size() > kDecodedTogether) flush();
  }
  std::int64_t finish() {
    flush();
    return bytes_;
  }

 private:
  static constexpr std::size_t kDecodedTogether = std::size_t{1} << 20;
  void flush() {
    bytes_ += static_cast<std::int64_t>(tokenizer_.decode(ids_).size());
    ids_.clear();
  }

  const data::Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;
  std::int64_t bytes_ = 0;
};

HostBatch read_batch(const data::Dataset& dataset, std::int64_t begin, std::int64_t end) {
  const std::int64_t length = dataset.sequence_length();
  HostBatch host;
  Batch& batch = host.batch;
  for (Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) {
    *t = at::empty({end - begin, length}, at::kLong);
  }
  std::vector<std::int32_t> starts = {0};
  bool documents = false;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t at = (n - begin) * length;
    const auto info = dataset.read(
        n, {batch.tokens.data_ptr<std::int64_t>() + at, batch.labels.data_ptr<std::int64_t>() + at,
            batch.positions.data_ptr<std::int64_t>() + at});
    host.valid_tokens += info.valid_tokens;
    documents |= !info.document_lengths.empty();
    auto lengths = info.document_lengths;
    if (lengths.empty()) lengths = {static_cast<std::int32_t>(length)};
    for (std::int32_t document : lengths) {
      starts.push_back(starts.back() + document);
      batch.max_document = std::max<std::int64_t>(batch.max_document, document);
    }
  }
  if (documents) {
    batch.cu_seqlens = at::tensor(at::ArrayRef<std::int32_t>(starts));
  } else {
    batch.max_document = 0;
  }
  return host;
}

Batch to_device(Batch batch, at::Device device) {
  for (Tensor* t : {&batch.tokens, &batch.labels, &batch.positions, &batch.cu_seqlens}) {
    if (t->defined()) *t = t->to(device);
  }
  return batch;
}

class Windows : public data::Dataset {
 public:
  Windows(std::unique_ptr<data::Dataset> stream, std::int64_t length)
      : stream_(std::move(stream)), length_(length) {}

  std::int64_t size() const override { return (stream_->size() + length_ - 1) / length_; }
  std::int64_t num_tokens() const override { return stream_->num_tokens(); }
  std::int64_t sequence_length() const override { return length_; }
  std::int64_t index_of(std::int64_t n) const override { return n % size(); }

  data::SampleInfo read(std::int64_t n, data::SampleView into) const override {
    const std::int64_t begin = index_of(n) * length_;
    const std::int64_t count = std::min(length_, stream_->size() - begin);
    data::fill_ignored(length_, into);
    data::SampleInfo info;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t position;
      info.valid_tokens +=
          stream_->read(begin + i, {into.tokens + i, into.labels + i, &position}).valid_tokens;
    }
    return info;
  }

 private:
  const std::unique_ptr<data::Dataset> stream_;
  const std::int64_t length_;
};

}  // namespace

double EvaluationResult::loss() const {
  return loss_sum / static_cast<double>(valid_tokens);
}
double EvaluationResult::perplexity() const {
  return std::exp(loss());
}
double EvaluationResult::bits_per_byte() const {
  return loss_sum / (std::numbers::ln2 * static_cast<double>(bytes));
}

EvaluationResult evaluate(nn::Model& model, const data::Dataset& dataset,
                          const data::Tokenizer& tokenizer, at::Device device,
                          const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  std::int64_t samples = dataset.size();
  if (options.max_samples > 0) samples = std::min(samples, options.max_samples);
  EvaluationResult result;
  ByteCounter bytes(tokenizer);
  for (std::int64_t begin = 0; begin < samples; begin += options.batch_size) {
    const std::int64_t end = std::min(samples, begin + options.batch_size);
    const HostBatch host = read_batch(dataset, begin, end);
    if (host.valid_tokens > 0) {
      const Batch batch = to_device(host.batch, device);
      const LossSum loss = model.loss(model.forward(batch.tokens, batch), batch);
      result.loss_sum += loss.sum.item<double>();
    }
    result.valid_tokens += host.valid_tokens;
    bytes.add(host.batch.labels);
    options.progress(end, samples);
  }
  result.bytes = bytes.finish();
  if (result.valid_tokens == 0) throw DataError("evaluation: the data holds no token to predict");
  return result;
}

std::unique_ptr<data::Dataset> in_windows(std::unique_ptr<data::Dataset> stream,
                                          std::int64_t length) {
  COEUS_ASSERT(stream->sequence_length() == 1 && length > 0, "windows of {}", length);
  return std::make_unique<Windows>(std::move(stream), length);
}

}  // namespace coeus::inference
