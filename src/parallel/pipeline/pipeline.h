#pragma once
#include <coeus/core/batch.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/connect.h"
#include "layout/schedule/schedule.h"
#include "parallel/parallelize.h"

namespace coeus::parallel {

// Runs micro-batches through this rank's stages in the order of a schedule. A model that is not cut
// has the schedule of one stage. Collective over pp.
class Pipeline {
 public:
  struct Options {
    std::string schedule = "1f1b";
    std::int64_t stages_per_rank = 1;
  };
  Pipeline(ParallelModel& model, const Options& options, comm::Groups& groups);

  using OnLoss = std::function<void(const LossSum&)>;
  // Forward and backward of every micro-batch. on_loss is called for each where the last stage is.
  void run(const std::vector<Batch>& micro_batches, const OnLoss& on_loss);
  void evaluate(const std::vector<Batch>& micro_batches, const OnLoss& on_loss);
  void reset();  // after an exception

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // stage, micro-batch
  struct Stage {
    Tensor input, output;  // kept from forward to backward
  };
  struct Arriving {
    Tensor tensor;
    comm::Work pending;
  };
  const std::vector<Action>& actions(std::int64_t num_micro_batches, bool backward);
  void run_list(const std::vector<Action>& actions, const std::vector<Batch>& batches,
                const OnLoss& on_loss);
  void forward(const Key& key, const Batch& batch, const OnLoss& on_loss);
  void backward(const Key& key);
  void send(const Tensor& tensor, std::int64_t peer, const Key& key, bool with_shape);
  Tensor arrived(std::map<Key, Arriving>& from, const Key& key);
  void open_pairs(comm::Groups& groups);
  comm::Communicator& pair(std::int64_t from, std::int64_t to) { return *pairs_.at({from, to}); }
  bool is_first(std::int64_t stage) const { return stage == 0; }
  bool is_last(std::int64_t stage) const { return stage + 1 == num_stages_; }
  bool is_here(std::int64_t stage) const {
    return stages_.rank_of_stage[static_cast<std::size_t>(stage)] == rank_;
  }

  ParallelModel& model_;
  Options options_;
  StageSplit stages_;
  std::int64_t rank_, num_ranks_, num_stages_;
  std::map<std::pair<std::int64_t, std::int64_t>, comm::Communicator*> pairs_;  // from, to
  std::map<std::pair<std::int64_t, bool>, std::vector<Action>> lists_;
  // Shape of a stage's input by that of the tokens: told once by who sends it.
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, std::vector<std::int64_t>> shapes_;
  std::map<Key, Stage> kept_;
  std::map<Key, Arriving> inputs_, gradients_;
  std::map<Key, std::vector<std::function<void()>>> weights_;
  std::deque<std::pair<comm::Work, Tensor>> pending_sends_;
};

// The stages that a schedule and a model ask for.
StageSplit split_for(const std::string& schedule, std::int64_t num_ranks,
                     std::int64_t stages_per_rank, const ModelSpec& model, const ParallelPlan& plan,
                     std::int64_t sequence_length);

}  // namespace coeus::parallel
