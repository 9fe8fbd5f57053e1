#pragma once
#include <coeus/core/tensor.h>

#include <cstdint>
#include <optional>

namespace coeus {

// One micro-batch on the device. B sequences, T tokens.
struct Batch {
  Tensor tokens;     // [B, T] int64
  Tensor labels;     // [B, T] int64, already shifted, -100 is ignored; undefined: no loss is wanted
  Tensor positions;  // [B, T] int64
  Tensor cu_seqlens;  // [D+1] int32, starts of the documents in the flattened
                      // B·sequence_length tokens; undefined: every sequence is one document
  std::int64_t max_document = 0;  // longest document in tokens, with cu_seqlens
  Tensor token_index;  // [T] int64, where in its whole sequence each local token stands, with
                       // context parallelism; undefined: 0 … T−1
  std::int64_t sequence_length = 0;  // of the whole sequence; 0: T
  std::int64_t step_sequences = 0;   // sequences of the whole step, over all ranks; 0: B
  Tensor loss_scale;  // [] fp32 on the device: 1 / valid tokens of the whole step, over all ranks
};

// A sum over valid tokens and their number; never a mean.
struct LossSum {
  Tensor sum;    // [] fp32
  Tensor count;  // [] int64
  enum class Gradient {
    unscaled,
    formed
  } gradient = Gradient::unscaled;  // formed: the head multiplied by loss_scale already
};

}  // namespace coeus
