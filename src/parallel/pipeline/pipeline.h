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
  const std::vector<Action>& training_list(std::int64_t num_micro_batches);
  std::vector<Action> evaluation_list(std::int64_t num_micro_batches) const;
  void run_list(const std::vector<Action>& actions, const std::vector<Batch>& batches,
                const OnLoss& on_loss);
  void forward(const Key& key, const Batch& batch, const OnLoss& on_loss);
  void backward(const Key& key);
  void form_weight_gradients(const Key& key);
  void send_output(const Key& key, std::int64_t peer, const Batch& batch);
  void send_dx(const Key& key, std::int64_t peer);
  void receive_input(const Key& key, std::int64_t peer, const Batch& batch);
  void receive_gradient(const Key& key, std::int64_t peer);
  void send(const Tensor& tensor, std::int64_t peer, const std::string& name);
  void wait_for_sends(std::size_t may_be_under_way);
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
  std::map<std::int64_t, std::vector<Action>> training_lists_;  // by the number of micro-batches
  // Shape of a stage's input by that of the tokens: told once by who sends it.
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, std::vector<std::int64_t>> shapes_;
  std::map<Key, Stage> kept_;
  std::map<Key, Arriving> inputs_, gradients_;
  std::map<Key, std::vector<std::function<void()>>> weights_;
  std::deque<std::pair<comm::Work, Tensor>> pending_sends_;
};

// The stages that a schedule and a model ask for.
StageSplit split_for(const Pipeline::Options& options, std::int64_t num_ranks,
                     std::int64_t num_micro_batches, const ModelSpec& model,
                     const ParallelPlan& plan, std::int64_t sequence_length);

}  // namespace coeus::parallel
