#pragma once
#include <coeus/core/batch.h>

#include <cstdint>
#include <vector>

#include "comm/connect.h"
#include "optim/adamw.h"
#include "parallel/parallelize.h"
#include "parallel/pipeline/pipeline.h"

namespace coeus::train {

// What one optimizer update did, the same on every rank.
struct StepResult {
  double loss = 0;       // mean over the step's valid tokens, all ranks
  double grad_norm = 0;  // before clipping
  std::int64_t valid_tokens = 0;
  bool applied =
      true;  // false: loss or norm were not finite and the update was left out on every rank
  double lr = 0, seconds = 0, data_wait_seconds = 0;
};

// One step: forward and backward of every micro-batch, reduction, norm, guard, update. Nothing on
// the host decides within it, so the device part can be captured whole in a CUDA graph.
class TrainStep {
 public:
  TrainStep(parallel::ParallelModel& model, parallel::Pipeline& pipeline, optim::AdamW& optimizer,
            comm::Groups& groups, at::Device device, double max_grad_norm);

  void set_lr(double lr);                               // before device_step or a replay
  void device_step(std::vector<Batch>& micro_batches);  // queues everything; reads nothing back
  StepResult read() const;  // of the last device_step; waits for the device

  StepResult run(std::vector<Batch>& micro_batches, double lr);
  // After run threw: every rank calls it, then the same step may be run again.
  void reset();

  double optimizer_count() const;
  void set_optimizer_count(double count);
  // Sum of losses and number of valid tokens of these micro-batches over all ranks, without
  // gradients.
  struct Evaluation {
    double loss_sum = 0;
    std::int64_t tokens = 0;
  };
  Evaluation evaluate(std::vector<Batch>& micro_batches);

 private:
  void count_valid_tokens(const std::vector<Batch>& micro_batches);
  void forward_backward(std::vector<Batch>& micro_batches);
  void update();

  parallel::ParallelModel& model_;
  parallel::Pipeline& pipeline_;
  optim::AdamW& optimizer_;
  comm::Groups& groups_;
  comm::Communicator &loss_group_, &world_;
  bool counts_loss_, counts_norm_;  // of the ranks that hold the same one of them counts
  at::Device device_;
  double max_grad_norm_;
  Tensor valid_tokens_;  // [1] fp64, of the step over all ranks
  Tensor loss_scale_;    // [] fp32
  Tensor sums_;          // [2] fp64: loss, squared gradient norm
  Tensor report_;        // [4] fp64: loss, norm, applied, valid tokens
  optim::StepScalars scalars_;
};

}  // namespace coeus::train
