#pragma once
#include <coeus/nn/moe.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "core/torch.h"
#include "models/llama/config.h"
#include "models/model_config.h"
#include "train/step.h"

// The layout-equivalence fixture: a small model trained on the same global samples under any
// layout, ranks as threads or processes.
namespace coeus::testing {

constexpr std::int64_t kSmallLayers = 4, kSmallHeads = 4, kSmallTopK = 2;

struct LayoutRun {
  int ranks = 1;
  MeshSizes sizes;
  std::int64_t global_batch = 16, micro_batch = 4, steps = 1;
  std::string model = "llama";  // of small_model_names()
  bool documents = false;       // several in a sequence, with a mask between them
  bool sequence_parallel = true;
  CpStyle cp_style = CpStyle::ring;
  std::string schedule = "1f1b";
  std::int64_t stages_per_rank = 1;
  std::int64_t layers = kSmallLayers;
  Recompute recompute = Recompute::none;
  std::int64_t recompute_every = 1;
  ReshardAfterForward reshard = ReshardAfterForward::automatic;
  Accumulate accumulate = Accumulate::automatic;
  at::ScalarType compute = at::kFloat;
  double lr = 1e-3;
  std::int64_t data_seed = 0;  // 0: the model's own, with which no choice of experts is close
  // Around each rank's communicator for device tensors (negative controls).
  using Wrap =
      std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;
  Wrap wrap = [](auto communicator) { return communicator; };
  // Called on every rank before its step; may change the micro-batches (negative controls) or throw
  // (faults).
  std::function<void(std::int64_t step, int rank, std::vector<Batch>&)> before_step = [](auto, auto,
                                                                                         auto&) {};
};

struct LayoutResult {
  std::vector<double> losses, grad_norms;
  std::map<std::string, std::vector<float>> gradients;  // of step 1, by segment
  std::map<std::string, std::vector<float>> weights;    // after the last step
  std::string initial_hash;
  // Smallest distance of a chosen expert's score to the best that was not, in step 1; one rank
  // only.
  double routing_margin = std::numeric_limits<double>::infinity();
};

models::LlamaConfig small_llama(bool tied);
std::vector<const char*> small_model_names();
bool has_experts(const std::string& model);
std::unique_ptr<ModelConfig> small_model(const LayoutRun& run);
// One rank's part of the run; results of all ranks are collected over `connection.host`, and
// returned by rank 0.
LayoutResult run_rank(const LayoutRun& run, const World& world, comm::Connection& connection);
LayoutResult run_threads(const LayoutRun& run);

// Per segment, relative to its norm and to its maximum; empty if every gradient is within `bound`.
std::string compare_gradients(const LayoutResult& reference, const LayoutResult& other,
                              double bound = 1e-5);
// Step 1 within 1e-6, all within 1e-5 relative; empty if so.
std::string compare_losses(const LayoutResult& reference, const LayoutResult& other);

}  // namespace coeus::testing
