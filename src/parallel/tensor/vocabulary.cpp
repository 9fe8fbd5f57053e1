#include "core/torch.h"
#include "nn/ops/ops.h"
#include "parallel/tensor/tensor.h"

namespace coeus::parallel {
namespace {

// Inside the attachment that sums the ranks' results: a token of another rank's rows gives zeros
// here.
class VocabularyLookup : public nn::Attachment {
 public:
  explicit VocabularyLookup(const Part& part) : part_(part) {}
  nn::Tensors run(const Tensor& tokens, const nn::Next& next) override {
    const Tensor row = tokens - part_.begin;
    const Tensor elsewhere = row.lt(0).logical_or_(row.ge(part_.end - part_.begin));
    nn::Tensors out = next(row.masked_fill(elsewhere, 0));
    out[0] = out[0].masked_fill(elsewhere.unsqueeze(-1), 0);
    return out;
  }

 private:
  Part part_;
};

class VocabularyLoss : public nn::HeadLoss {
 public:
  VocabularyLoss(const Part& part, std::int64_t largest, const TensorParallelOptions& options) {
    const auto reduce = [options](Tensor& t, comm::ReduceOp op) {
      options.tp->all_reduce(t, op, {.label = options.label}).wait();
    };
    part_ = {.first = part.begin,
             .largest = largest,
             .max = [reduce](Tensor& t) { reduce(t, comm::ReduceOp::max); },
             .sum = [reduce](Tensor& t) { reduce(t, comm::ReduceOp::sum); }};
  }

 private:
  Tensor forward(const Tensor& x_NI, const Tensor& labels_N, const nn::Parameter* weight,
                 const Tensor& loss_scale) override {
    return nn::ops::linear_cross_entropy(x_NI, labels_N, *weight, loss_scale, &part_);
  }
  nn::ops::VocabularyPart part_;
};

}  // namespace

std::unique_ptr<nn::Attachment> make_vocabulary_lookup(const Part& part) {
  return std::make_unique<VocabularyLookup>(part);
}
std::unique_ptr<nn::HeadLoss> make_vocabulary_loss(const Part& part, std::int64_t largest,
                                                   const TensorParallelOptions& options) {
  return std::make_unique<VocabularyLoss>(part, largest, options);
}

}  // namespace coeus::parallel
