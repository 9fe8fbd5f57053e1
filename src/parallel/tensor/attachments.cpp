#include "base/error.h"
#include "core/torch.h"
#include "parallel/redistribute.h"
#include "parallel/tensor/tensor.h"

namespace coeus::parallel {
namespace {

constexpr std::int64_t kSequenceDim = 1;  // of [B, T, D]

Placement between_layers(const TensorParallelOptions& o) {
  return o.sequence_parallel ? shard(kSequenceDim) : replicate();
}

class GatherInput : public nn::Attachment {
 public:
  explicit GatherInput(const TensorParallelOptions& options) : options_(options) {}
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    return next(redistribute(x, between_layers(options_), replicate(), *options_.tp,
                             {.label = options_.label}));
  }

 private:
  TensorParallelOptions options_;
};

class ReduceOutput : public nn::Attachment {
 public:
  explicit ReduceOutput(const TensorParallelOptions& options) : options_(options) {}
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    nn::Tensors out = next(x);
    if (options_.sequence_parallel && out[0].size(kSequenceDim) % options_.tp->size() != 0)
      throw ConfigError(fmt::format("{}: {} tokens of a sequence are not a multiple of tp {}",
                                    options_.label, out[0].size(kSequenceDim),
                                    options_.tp->size()));
    out[0] = redistribute(out[0], partial(), between_layers(options_), *options_.tp,
                          {.label = options_.label});
    return out;
  }

 private:
  TensorParallelOptions options_;
};

}  // namespace

std::unique_ptr<nn::Attachment> make_gather_input(const TensorParallelOptions& options) {
  return std::make_unique<GatherInput>(options);
}
std::unique_ptr<nn::Attachment> make_reduce_output(const TensorParallelOptions& options) {
  return std::make_unique<ReduceOutput>(options);
}

}  // namespace coeus::parallel
