#include "core/torch.h"
#include "train/observer.h"

namespace coeus::train {
namespace {

// One number a decision, so that ranks merge by maximum: bit 0 save, the rest the outcome's place
// in order of severity.
std::int64_t encode(const Decision& d) {
  return (d.stop ? 2 * (static_cast<std::int64_t>(*d.stop) + 1) : 0) + (d.save ? 1 : 0);
}

}  // namespace

Decision Observers::after(Step step, const StepResult& result) {
  Decision mine;
  for (auto& observer : observers_) {
    const Decision d = observer->after(step, result);
    mine.save |= d.save;
    if (d.stop && (!mine.stop || *d.stop > *mine.stop)) mine.stop = d.stop;
  }
  Tensor merged = at::tensor({static_cast<std::int64_t>(mine.save), encode(mine) / 2}, at::kLong);
  host_.all_reduce(merged, comm::ReduceOp::max, {.label = "decisions after the step"}).wait();
  const auto* m = merged.data_ptr<std::int64_t>();
  Decision all{.save = m[0] != 0, .stop = {}};
  if (m[1] > 0) all.stop = static_cast<Outcome>(m[1] - 1);
  return all;
}

}  // namespace coeus::train
