#pragma once
#include <coeus/nn/model.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/connect.h"
#include "layout/plan.h"
#include "parallel/config.h"
#include "parallel/unit/calls.h"
#include "parallel/unit/slots.h"
#include "parallel/unit/unit.h"

namespace coeus::parallel {

struct ApplyOptions {
  ParallelPlan plan;
  ParallelConfig parallel;
  ExecutionConfig execution;
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;
};

// A model whose parameters live in units over the mesh. Its own `parameters()` are views that are
// empty outside their layer's call.
class ParallelModel {
 public:
  // Runs the phases: recompute, unit, allocate. Throws ConfigError for a plan that does not fit the
  // model.
  ParallelModel(std::unique_ptr<nn::Model> model, const ApplyOptions& options,
                comm::Groups& groups);

  nn::Model& model() { return *model_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  std::vector<FlatShard> shards();        // what the optimizer updates
  std::vector<Segment> segments() const;  // of the whole model, each once
  void initialise(std::int64_t seed);  // weights as a function of (seed, segment fqn, global index)
  void publish();                      // master -> compute-dtype shards; units are gathered anew

  void begin_micro_batch(bool last);
  void finish();    // every gradient reduction is ordered before the current stream
  void end_step();  // after the optimizer: weights stale, gradients free
  void reset();     // after an exception
  // Every buffer that a collective may read or write.
  std::vector<std::pair<const void*, const void*>> memory() const;

 private:
  void attach_recompute(const ApplyOptions& options);
  void make_units(const ApplyOptions& options, comm::Groups& groups);
  void attach_units(const ApplyOptions& options);

  std::unique_ptr<nn::Model> model_;
  SlotPool slots_;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace coeus::parallel
