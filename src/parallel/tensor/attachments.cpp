#include "parallel/redistribute.h"
#include "parallel/tensor/tensor.h"

namespace coeus::parallel {
namespace {

constexpr std::int64_t kSequenceDim = 1;  // of [B, T, D]

Placement between_layers(const TensorOptions& o) {
  return o.sequence_parallel ? shard(kSequenceDim) : replicate();
}

class GatherInput : public nn::Attachment {
 public:
  explicit GatherInput(const TensorOptions& options) : options_(options) {}
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    return next(redistribute(x, between_layers(options_), replicate(), *options_.tp,
                             {.label = options_.label}));
  }

 private:
  TensorOptions options_;
};

class ReduceOutput : public nn::Attachment {
 public:
  explicit ReduceOutput(const TensorOptions& options) : options_(options) {}
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    nn::Tensors out = next(x);
    out[0] = redistribute(out[0], partial(), between_layers(options_), *options_.tp,
                          {.label = options_.label});
    return out;
  }

 private:
  TensorOptions options_;
};

}  // namespace

std::unique_ptr<nn::Attachment> make_gather_input(const TensorOptions& options) {
  return std::make_unique<GatherInput>(options);
}
std::unique_ptr<nn::Attachment> make_reduce_output(const TensorOptions& options) {
  return std::make_unique<ReduceOutput>(options);
}

}  // namespace coeus::parallel
