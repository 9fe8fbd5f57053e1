#pragma once
#include <coeus/core/batch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cuda.h"
#include "data/loader.h"

namespace coeus::train {

struct FeedOptions {
  std::int64_t global_batch_size = 1, micro_batch_size = 1;
  std::int64_t batch_coordinate = 0, batch_degree = 1;  // which part of the global batch is ours
  std::int64_t threads = 1;
  std::int64_t first_sample = 0;          // global sample number of the first step's first sequence
  std::int64_t end_sample = 0;            // from here on sequences are ignored ones
  std::vector<std::int64_t> token_index;  // which tokens of each sequence are ours; empty: all
  at::Device device = at::kCPU;
};

struct StepBatch {
  std::vector<Batch> micro_batches;
  double data_wait_seconds = 0;
};

// Turns global samples into micro-batches on the device, one step ahead: reader threads fill one
// host buffer while the other is copied.
class Feed {
 public:
  Feed(const data::Dataset& dataset, const FeedOptions& options);
  StepBatch next();  // of the following step; steps follow one another
  std::int64_t next_sample() const { return next_sample_; }
  void restart(std::int64_t first_sample);  // as if constructed with it

 private:
  struct Buffer {
    Tensor tokens, labels,
        positions;  // [local sequences, T] on the host, pinned where there is a GPU
    Tensor device_tokens, device_labels, device_positions;
    std::int64_t ticket = -1;
    core::Event copied, consumed;
    explicit Buffer(at::Device device) : copied(device), consumed(device) {}
  };
  void start(Buffer& buffer, std::int64_t first_sample);
  void copy_to_device(Buffer& buffer);
  void set_documents(Batch& batch, const data::LoadedSequences& loaded, std::int64_t first) const;

  FeedOptions options_;
  std::int64_t local_sequences_, sequence_length_, next_sample_;
  std::unique_ptr<data::Loader> loader_;
  Tensor token_index_;  // on the device; undefined: all tokens are ours
  core::SideStream copy_stream_;
  std::vector<Buffer> buffers_;
  std::size_t current_ = 0;
};

}  // namespace coeus::train
