#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/world.h"
#include "comm/connect.h"
#include "data/dataset.h"
#include "job/job_config.h"
#include "optim/adamw.h"
#include "parallel/parallelize.h"
#include "train/feed.h"
#include "train/observer.h"
#include "train/registry.h"
#include "train/run_directory.h"
#include "train/save.h"
#include "train/step.h"

namespace coeus::train {

// What the program that hosts a run hands in.
struct SessionOptions {
  LoadedJob job;
  World world;
  comm::Connection connection;
  at::Device device = at::kCPU;
  const Registry* registry = nullptr;
  std::shared_ptr<Logger> log;                    // says nothing on ranks other than 0
  const std::atomic<int>* stop_signal = nullptr;  // 0, or the signal that asked for save and exit
  Json build;                                     // git commit and library versions, for the stamps
};

// A run of one rank, built by small functions in the order below, then driven by run().
class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();

  Step first_step() const { return state_.step + 1; }
  Step last_step() const { return last_step_; }
  Feed& feed() { return *feed_; }
  StepResult train_step(StepBatch batch);
  Observers& observers() { return *observers_; }
  void save(Step step);

  // Mean loss over the validation samples and how many tokens it is over; nothing where there is no
  // validation data.
  std::optional<std::pair<double, std::int64_t>> evaluate();

  const JobConfig& config() const { return options_.job.config; }
  const SessionOptions& options() const { return options_; }
  const Mesh& mesh() const { return groups_->mesh(); }
  const RunDirectory& directory() const { return *directory_; }
  const TrainState& state() const { return state_; }
  parallel::ParallelModel& model() { return *model_; }
  optim::AdamW& optimizer() { return *optimizer_; }
  TrainStep& step() { return *step_; }
  comm::Communicator& host() { return *options_.connection.host; }
  Logger& log() const { return *options_.log; }
  at::ScalarType compute() const { return compute_; }
  const ModelSpec& spec() const { return spec_; }
  bool is_first_rank() const { return options_.world.rank == 0; }
  void abort(const std::string& reason) noexcept;
  // Over every weight in fp32 and, where asked for, the optimizer's moments: the same on any
  // layout.
  enum class Hashed { weights, weights_and_moments };
  std::string state_hash(Hashed what = Hashed::weights);

 private:
  void open_data();
  void open_run_directory();
  void build_model();
  void plan_steps();
  void restore();
  void start_feeds();
  void add_observers();
  void print_banner() const;
  double learning_rate(Step step) const;
  std::vector<std::int64_t> token_index() const;
  FeedOptions feed_options(std::int64_t first_sample, std::int64_t end_sample) const;

  SessionOptions options_;
  at::ScalarType compute_;
  std::unique_ptr<comm::Groups> groups_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  std::unique_ptr<data::Dataset> train_data_, validation_data_;
  std::unique_ptr<RunDirectory> directory_;
  ModelSpec spec_;
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<parallel::Pipeline> pipeline_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<TensorRanges> ranges_;
  std::unique_ptr<Feed> feed_, validation_feed_;
  std::unique_ptr<Observers> observers_;
  TrainState state_;
  Step last_step_ = 0;
  std::int64_t end_sample_ = 0;
  Step saved_step_ = -1;
};

// Runs the session to its end. Throws what a step or a save threw.
Outcome run(Session& session);

}  // namespace coeus::train
