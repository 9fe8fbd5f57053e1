#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "core/torch.h"
#include "models/llama/config.h"
#include "train/step.h"

// The layout-equivalence fixture: a small Llama trained on the same global samples under any
// layout, ranks as threads or processes.
namespace coeus::testing {

struct LayoutRun {
  int ranks = 1;
  MeshSizes sizes;
  std::int64_t global_batch = 16, micro_batch = 4, steps = 1;
  bool tied = false;
  Recompute recompute = Recompute::none;
  std::int64_t recompute_every = 1;
  ReshardAfterForward reshard = ReshardAfterForward::automatic;
  Accumulate accumulate = Accumulate::automatic;
  at::ScalarType compute = at::kFloat;
  double lr = 1e-3;
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
};

models::LlamaConfig small_llama(bool tied);
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
