#include "core/torch.h"
#include "parallel/expert/expert.h"

namespace coeus::parallel {
namespace {

class CountSum : public nn::MoeCounts {
 public:
  CountSum(std::vector<comm::Communicator*> axes, std::string label)
      : axes_(std::move(axes)), label_(std::move(label)) {}

 private:
  Tensor forward(const Tensor& counts_BE) override {
    at::NoGradGuard no_grad;
    Tensor sum = counts_BE.contiguous().clone();
    for (auto* axis : axes_) axis->all_reduce(sum, comm::ReduceOp::sum, {.label = label_}).wait();
    return sum;
  }

  std::vector<comm::Communicator*> axes_;
  std::string label_;
};

}  // namespace

std::unique_ptr<nn::MoeCounts> make_count_sum(std::vector<comm::Communicator*> axes,
                                              std::string label) {
  return std::make_unique<CountSum>(std::move(axes), std::move(label));
}

}  // namespace coeus::parallel
