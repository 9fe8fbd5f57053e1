#pragma once
#include <coeus/nn/layers.h>

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "layout/segments.h"

// Tensor parallelism: layers compute with parts of their matrices; what enters and leaves them is
// redistributed by attachments around the call. https://arxiv.org/abs/1909.08053, and with sequence
// parallelism https://arxiv.org/abs/2205.05198
namespace coeus::parallel {

// Between the layers activations [B, T, D] are parts of the sequence (sequence parallel, the
// default) or whole on every tp rank.
struct TensorParallelOptions {
  comm::Communicator* tp = nullptr;
  bool sequence_parallel = true;
  std::string label = {};  // fqn of the layer, for errors
};

// Whole activations in, from what lies between the layers.
std::unique_ptr<nn::Attachment> make_gather_input(const TensorParallelOptions& options);
// Partial sums out, to what lies between the layers.
std::unique_ptr<nn::Attachment> make_reduce_output(const TensorParallelOptions& options);
// Rows of the table that `part` says are here; the lookups of the others come from other ranks.
std::unique_ptr<nn::Attachment> make_vocabulary_lookup(const Part& part);
// The loss over parts of the vocabulary, the same on every tp rank. largest: rows of the largest.
std::unique_ptr<nn::HeadLoss> make_vocabulary_loss(const Part& part, std::int64_t largest,
                                                   const TensorParallelOptions& options);

}  // namespace coeus::parallel
