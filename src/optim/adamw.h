#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/flat_shard.h"
#include "optim/config.h"

namespace coeus::optim {

// Scalars of one step, on the device: nothing on the host decides, so that the whole step can be
// one CUDA graph.
struct StepScalars {
  Tensor lr;     // [] fp32, already scheduled
  Tensor clip;   // [] fp32, gradient factor
  Tensor count;  // [] fp32, the optimizer's own step count of this step (1 at the first)
  Tensor apply;  // [] fp32, 1 or 0: 0 leaves every value as it is
};

// AdamW over flat fp32 shards: one launch a unit; writes the compute-dtype shard that the next
// unshard sends. https://arxiv.org/abs/1711.05101, decay decoupled and scaled by lr as in PyTorch.
class AdamW {
 public:
  // Throws ConfigError for a group whose pattern matches no segment of `all_segments` (of the whole
  // model, not only of these shards).
  AdamW(std::vector<FlatShard> shards, const OptimizerConfig& config,
        const std::vector<Segment>& all_segments);
  void step(const StepScalars& scalars);
  // Moments by name, in shard order: {"exp_avg", {…}}, {"exp_avg_sq", {…}}.
  std::vector<std::pair<std::string, std::vector<Tensor>>> state();
  const std::vector<FlatShard>& shards() const { return shards_; }

 private:
  struct Hyper {
    Tensor ends, weight_decay, lr_scale;  // per range of a shard: its end, and what applies to it
  };
  std::vector<FlatShard> shards_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
  std::vector<Hyper> hypers_;
  OptimizerConfig config_;
};

}  // namespace coeus::optim
