#include "train/feed.h"

#include <algorithm>
#include <numeric>

#include "core/torch.h"

namespace coeus::train {

Feed::Feed(const data::Dataset& dataset, const FeedOptions& options)
    : options_(options),
      local_sequences_(options.global_batch_size / options.batch_degree),
      sequence_length_(dataset.sequence_length()),
      next_sample_(options.first_sample),
      loader_(std::make_unique<data::Loader>(dataset, options.threads, options.end_sample)),
      copy_stream_(options.device) {
  const auto host = at::TensorOptions().dtype(at::kLong).pinned_memory(options.device.is_cuda());
  const auto device = at::TensorOptions().dtype(at::kLong).device(options.device);
  for (int i = 0; i < 2; ++i) {
    Buffer& b = buffers_.emplace_back(options.device);
    for (Tensor* t : {&b.tokens, &b.labels, &b.positions})
      *t = at::zeros({local_sequences_, sequence_length_}, host);
    if (options.device.is_cuda()) {
      for (Tensor* t : {&b.device_tokens, &b.device_labels, &b.device_positions})
        *t = at::zeros({local_sequences_, sequence_length_}, device);
    } else {
      b.device_tokens = b.tokens;
      b.device_labels = b.labels;
      b.device_positions = b.positions;
    }
  }
  if (!options.token_index.empty())
    token_index_ = at::tensor(options.token_index, at::kLong).to(options.device);
  start(buffers_[0], next_sample_);
}

void Feed::start(Buffer& b, std::int64_t first_sample) {
  b.copied.synchronize();
  std::vector<std::int64_t> samples(local_sequences_);
  std::iota(samples.begin(), samples.end(),
            first_sample + options_.batch_coordinate * local_sequences_);
  b.ticket = loader_->start(std::move(samples),
                            {b.tokens.data_ptr<std::int64_t>(), b.labels.data_ptr<std::int64_t>(),
                             b.positions.data_ptr<std::int64_t>()});
}

void Feed::copy_to_device(Buffer& b) {
  if (!options_.device.is_cuda()) return;
  {
    core::SideStream::Guard guard(copy_stream_);
    b.consumed.wait();
    b.device_tokens.copy_(b.tokens, true);
    b.device_labels.copy_(b.labels, true);
    b.device_positions.copy_(b.positions, true);
    b.copied.record();
  }
  b.copied.wait();
}

void Feed::set_documents(Batch& batch, const data::LoadedSequences& loaded,
                         std::int64_t first) const {
  const auto begin = loaded.samples.begin() + first, end = begin + batch.tokens.size(0);
  if (std::all_of(begin, end, [](const data::SampleInfo& s) { return s.document_lengths.empty(); }))
    return;
  std::vector<std::int32_t> starts = {0};
  for (auto sample = begin; sample != end; ++sample) {
    auto lengths = sample->document_lengths;
    if (lengths.empty()) lengths.push_back(static_cast<std::int32_t>(sequence_length_));
    for (const auto length : lengths) {
      starts.push_back(starts.back() + length);
      batch.max_document = std::max<std::int64_t>(batch.max_document, length);
    }
  }
  batch.cu_seqlens = at::tensor(starts, at::kInt).to(options_.device);
}

StepBatch Feed::next() {
  Buffer& b = buffers_[current_];
  Buffer& other = buffers_[1 - current_];
  const data::LoadedSequences loaded = loader_->wait(b.ticket);
  b.ticket = -1;
  copy_to_device(b);
  StepBatch step{{}, loaded.wait_seconds};
  for (std::int64_t i = 0; i < local_sequences_; i += options_.micro_batch_size) {
    auto part = [&](const Tensor& t) {
      const Tensor rows = t.narrow(0, i, options_.micro_batch_size);
      return token_index_.defined() ? rows.index_select(1, token_index_) : rows;
    };
    Batch batch{.tokens = part(b.device_tokens),
                .labels = part(b.device_labels),
                .positions = part(b.device_positions),
                .token_index = token_index_,
                .sequence_length = sequence_length_,
                .step_sequences = options_.global_batch_size};
    set_documents(batch, loaded, i);
    step.micro_batches.push_back(std::move(batch));
  }
  other.consumed.record();  // all that was queued so far, the previous step included
  next_sample_ += options_.global_batch_size;
  start(other, next_sample_);
  current_ = 1 - current_;
  return step;
}

void Feed::restart(std::int64_t first_sample) {
  for (auto& b : buffers_) {
    if (b.ticket >= 0) loader_->wait(b.ticket);
    b.ticket = -1;
  }
  next_sample_ = first_sample;
  start(buffers_[current_], next_sample_);
}

}  // namespace coeus::train
