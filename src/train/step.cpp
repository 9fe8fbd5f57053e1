#include "train/step.h"

#include "core/torch.h"
#include "optim/clip.h"

namespace coeus::train {

TrainStep::TrainStep(parallel::ParallelModel& model, parallel::Pipeline& pipeline,
                     optim::AdamW& optimizer, comm::Groups& groups, at::Device device,
                     double max_grad_norm)
    : model_(model),
      pipeline_(pipeline),
      optimizer_(optimizer),
      groups_(groups),
      loss_group_(groups.open("loss")),
      world_(groups.open("world")),
      counts_loss_(groups.coordinate("tp") == 0),
      counts_norm_(groups.coordinate("dp_replicate") == 0),
      device_(device),
      max_grad_norm_(max_grad_norm) {
  const auto fp64 = at::TensorOptions().device(device).dtype(at::kDouble);
  const auto fp32 = fp64.dtype(at::kFloat);
  valid_tokens_ = at::zeros({1}, fp64);
  loss_scale_ = at::zeros({}, fp32);
  sums_ = at::zeros({2}, fp64);
  report_ = at::zeros({4}, fp64);
  scalars_ = {.lr = at::zeros({}, fp32),
              .clip = at::ones({}, fp32),
              .count = at::zeros({}, fp32),
              .apply = at::ones({}, fp32)};
}

void TrainStep::set_lr(double lr) {
  scalars_.lr.fill_(lr);
}

void TrainStep::count_valid_tokens(const std::vector<Batch>& micro_batches) {
  valid_tokens_.zero_();
  for (const auto& batch : micro_batches) valid_tokens_.add_(batch.labels.ne(-100).sum());
  loss_group_.all_reduce(valid_tokens_, comm::ReduceOp::sum, {.label = "valid tokens"}).wait();
  loss_scale_.copy_(valid_tokens_[0].clamp_min(1).reciprocal());
}

void TrainStep::forward_backward(std::vector<Batch>& micro_batches) {
  sums_.zero_();
  for (Batch& batch : micro_batches) batch.loss_scale = loss_scale_;
  pipeline_.run(micro_batches, [&](const LossSum& loss) {
    if (counts_loss_) sums_[0].add_(loss.sum.detach());
  });
}

void TrainStep::update() {
  if (counts_norm_) sums_[1].copy_(optim::sum_of_squares(optimizer_.shards()));
  world_.all_reduce(sums_, comm::ReduceOp::sum, {.label = "loss and gradient norm"}).wait();
  const Tensor loss = sums_[0] / valid_tokens_[0].clamp_min(1), norm = sums_[1].sqrt();
  const Tensor finite = at::isfinite(loss).logical_and(at::isfinite(norm));
  scalars_.apply.copy_(finite);
  scalars_.count.add_(scalars_.apply);
  scalars_.clip.copy_(optim::clip_factor(norm, max_grad_norm_));
  report_.copy_(at::stack({loss, norm, finite.to(at::kDouble), valid_tokens_[0]}));
  optimizer_.step(scalars_);
  model_.end_step(scalars_.apply);
}

void TrainStep::device_step(std::vector<Batch>& micro_batches) {
  {
    at::NoGradGuard no_grad;
    count_valid_tokens(micro_batches);
  }
  forward_backward(micro_batches);
  at::NoGradGuard no_grad;
  update();
}

StepResult TrainStep::read() const {
  world_.synchronize({.label = "result of the step"});
  const Tensor host = report_.cpu();
  const double* r = host.data_ptr<double>();
  return {.loss = r[0],
          .grad_norm = r[1],
          .valid_tokens = static_cast<std::int64_t>(r[3]),
          .applied = r[2] != 0};
}

StepResult TrainStep::run(std::vector<Batch>& micro_batches, double lr) {
  set_lr(lr);
  device_step(micro_batches);
  StepResult result = read();
  result.lr = lr;
  return result;
}

void TrainStep::reset() {
  pipeline_.reset();
  model_.reset();
}

double TrainStep::optimizer_count() const {
  return scalars_.count.cpu().item<float>();
}
void TrainStep::set_optimizer_count(double count) {
  scalars_.count.fill_(count);
}

TrainStep::Evaluation TrainStep::evaluate(std::vector<Batch>& micro_batches) {
  at::NoGradGuard no_grad;
  count_valid_tokens(micro_batches);
  sums_.zero_();
  pipeline_.evaluate(micro_batches, [&](const LossSum& loss) {
    if (counts_loss_) sums_[0].add_(loss.sum);
  });
  world_.all_reduce(sums_, comm::ReduceOp::sum, {.label = "validation loss"}).wait();
  world_.synchronize({.label = "validation loss"});
  const Tensor host = sums_.cpu();
  return {host.data_ptr<double>()[0],
          static_cast<std::int64_t>(valid_tokens_.cpu().item<double>())};
}

}  // namespace coeus::train
