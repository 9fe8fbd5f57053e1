#pragma once
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/connect.h"
#include "data/tokenizer.h"
#include "job/job_config.h"
#include "optim/adamw.h"
#include "parallel/parallelize.h"

namespace coeus::train {

// Where a run stands, beside its tensors: train_state.json.
struct TrainState {
  std::int64_t step = 0, tokens = 0, next_sample = 0, seed = 0;
  double optimizer_count = 0;
  std::vector<std::int64_t> skipped_steps;
  std::string layout;
  Json to_json() const;
  static TrainState from_json(const Json& json, const std::string& where);
};

// The tensors of a run as ranges of Hugging Face tensors.
class TensorRanges {
 public:
  TensorRanges(parallel::ParallelModel& model, optim::AdamW& optimizer, const ModelConfig& names,
               at::ScalarType compute, comm::Groups& groups);

  std::vector<checkpoint::TensorSet> sets() const;
  // This rank's part; device memory is copied to `kept` first. Replicas divide the writing.
  std::vector<checkpoint::WriteRun> writes(std::vector<Tensor>& kept);
  // Weights and, where asked for, moments; the compute-dtype shards follow from the master, which
  // must round to what the file holds.
  enum class What { weights, weights_and_moments };
  void read(const checkpoint::Reader& reader, What what, const checkpoint::Peers& peers,
            Verify verify);

 private:
  struct Set {
    std::string prefix;
    checkpoint::DType dtype;
    std::vector<Tensor> shards;  // one per flat shard
  };
  std::vector<Set> tensor_sets();
  void write_buffers(std::vector<checkpoint::WriteRun>& runs, std::vector<Tensor>& kept);
  void read_sets(const checkpoint::Reader& reader,
                 std::vector<std::pair<std::string, std::vector<Tensor>>> wanted,
                 const checkpoint::Peers& peers, Verify verify);

  parallel::ParallelModel& model_;
  optim::AdamW& optimizer_;
  const ModelConfig& names_;
  at::ScalarType compute_;
  comm::Communicator &replicate_, &tp_;
  bool writes_buffers_;  // of the ranks that hold the same ones
};

checkpoint::Peers peers_over(comm::Communicator& host);
// config.json, generation_config.json and the tokenizer's files of a checkpoint.
std::vector<std::pair<std::string, std::string>> huggingface_texts(const ModelConfig& model,
                                                                   const data::Tokenizer& tokenizer,
                                                                   at::ScalarType compute);

}  // namespace coeus::train
