#pragma once
#include <coeus/nn/model.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/connect.h"
#include "layout/plan.h"
#include "layout/stages.h"
#include "parallel/config.h"
#include "parallel/unit/calls.h"
#include "parallel/unit/slots.h"
#include "parallel/unit/unit.h"

namespace coeus::parallel {

// Which pipeline rank runs which part of the chain. Empty: all of it on one.
struct StageSplit {
  std::vector<StageRange> ranges;           // by stage
  std::vector<std::int64_t> rank_of_stage;  // coordinate along pp
};

struct ApplyOptions {
  ParallelPlan plan;
  ParallelConfig parallel;
  ExecutionConfig execution;
  StageSplit stages;
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;
};

// A model whose parameters live in units over the mesh. Its own `parameters()` are views that are
// empty outside their layer's call.
class ParallelModel {
 public:
  // Runs the phases: place, attach, recompute, unit, allocate. Throws ConfigError for a plan that
  // does not fit the model.
  ParallelModel(std::unique_ptr<nn::Model> model, const ApplyOptions& options,
                comm::Groups& groups);

  nn::Model& model() { return *model_; }
  const StageSplit& stages() const { return stages_; }
  const ModelSpec& spec() const { return whole_; }  // of the whole model
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  std::vector<FlatShard> shards();        // what the optimizer updates
  std::vector<Segment> segments() const;  // of the whole model, each once
  // State without gradients that this rank holds, whole; equal on all ranks of a stage.
  struct NamedBuffer {
    Segment segment;
    Tensor values;  // fp32
  };
  std::vector<NamedBuffer> buffers();
  std::vector<Segment> buffer_segments() const;  // of the whole model
  void initialise(std::int64_t seed);  // weights as a function of (seed, segment fqn, global index)
  void publish();                      // master -> compute-dtype shards; units are gathered anew

  void begin_step(std::int64_t num_micro_batches);
  void finish();  // every gradient reduction is ordered before the current stream
  // After the optimizer: weights stale, gradients free. `applied` [] fp32: 0 if it left the update
  // out.
  void end_step(const Tensor& applied);
  void reset();  // after an exception

  // Weight gradients that backward put off (with more than one pipeline stage): those of the
  // backward that ran last, to be formed by whoever holds them. Each must be called once a step.
  std::vector<std::function<void()>> take_deferred() { return std::exchange(deferred_, {}); }

  // Every buffer that a collective may read or write.
  std::vector<std::pair<const void*, const void*>> memory() const;

 private:
  void place(const ApplyOptions& options, comm::Groups& groups);
  void attach_recompute(const ApplyOptions& options);
  void make_units(const ApplyOptions& options, comm::Groups& groups);
  void make_unit(UnitSpec spec, const UnitOptions& options, const UnitGroups& over);
  void attach_units(const ApplyOptions& options);
  void defer_weight_gradients();
  void open_tied_groups(comm::Groups& groups);
  bool is_here(const std::string& layer) const;
  void visit_here(const std::function<void(nn::LayerBase&)>& f);
  void sum_counts();

  std::unique_ptr<nn::Model> model_;
  StageSplit stages_;
  ModelSpec whole_, placed_;
  std::vector<std::string> local_layers_;  // of the chain
  SlotPool slots_;
  std::vector<std::unique_ptr<Unit>> units_;
  // Units of weights that several pipeline ranks hold. The first of the holders counts.
  struct TiedUnit {
    Unit* unit;
    comm::Communicator* holders;
  };
  std::vector<TiedUnit> tied_;
  comm::Communicator* stage_group_ = nullptr;
  std::vector<std::function<void()>> deferred_;
};

}  // namespace coeus::parallel
