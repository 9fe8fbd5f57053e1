#pragma once
#include <coeus/nn/parameter.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/cuda.h"
#include "core/flat_shard.h"
#include "core/torch.h"
#include "layout/plan.h"
#include "parallel/unit/slots.h"

namespace coeus::parallel {

// When gradients leave a unit: after every micro-batch, or once a step from a full-sized buffer.
enum class Accumulation { sharded, full };
enum class Residency { resharded, persistent };  // persistent: the full weights stay allocated

struct UnitOptions {
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;
  Residency residency = Residency::resharded;
  Accumulation accumulation = Accumulation::sharded;
  bool gradients_in_forward =
      false;  // one of its layers writes gradients in forward: own gradient slot, accumulates full
  std::int64_t uses = 1;  // closings of a micro-batch: calls, and weight gradients that come later
};

// The ranks a unit is spread over. gather and reduce are two communicators over the same ranks, so
// that both can be under way at once.
struct UnitGroups {
  comm::Communicator* gather = nullptr;
  comm::Communicator* reduce = nullptr;
  comm::Communicator* replicate = nullptr;  // shards equal to ours; null or of size 1: none
  // The tp ranks that hold copies of a part whose gradients are summed, by their number.
  std::map<std::int64_t, comm::Communicator*> copies;
};

// Parameters that are gathered, reduced and updated together: views into flat buffers that
// collectives read and write in place. Not thread safe: a rank's own. See docs/units.md for the
// order of events around it.
class Unit {
 public:
  Unit(UnitSpec spec, std::vector<nn::Parameter*> parameters, const UnitOptions& options,
       const UnitGroups& groups, SlotPool& slots);

  const std::string& name() const { return spec_.name; }
  const UnitSpec& spec() const { return spec_; }
  void allocate();  // after SlotPool::allocate
  std::vector<FlatShard> shards();
  std::vector<std::pair<const void*, const void*>> memory() const;  // of its own buffers

  // Weights. Counted: the last reshard empties the storage, the slot remembers what it holds.
  void unshard();
  void reshard();
  void prefetch();    // starts the gather if the slot is free
  void mark_stale();  // the shards were changed: gather again

  // Gradients of one step.
  bool accumulates_over_step() const { return !reduces_each_micro_batch(); }
  void add_use() { ++options_.uses; }
  void begin_step(std::int64_t num_micro_batches);
  void take_gradient_slot();
  void open_use() { ++open_uses_; }
  void close_use();     // of a call, in backward
  void close_weight();  // a weight gradient that was put off is formed
  void finish();        // end of a step: every reduction is ordered before the current stream
  void end_step();      // gradients are no longer needed

  void reset();  // after an exception: as if no step had begun, weights stale

 private:
  struct Section {
    FlatSection layout;
    std::vector<nn::Parameter*> parameters;  // in layout order
    at::ScalarType dtype = at::kFloat;
    Tensor owner;  // holds the leaves' one storage
    Tensor full;   // persistent weights; undefined: `slot` is used
    Tensor shard, master;
    Slot* slot = nullptr;
    Tensor full_gradient, gradient_shard;  // full_gradient undefined: `gradient_slot` is used
    Slot* gradient_slot = nullptr;
    std::vector<Tensor> gradient_views;  // one per parameter, of the unit's shape
    std::vector<Tensor> paddings;        // of the gradient buffer
    comm::Work pending_gather;
    bool fresh = false;  // `full` holds the gathered weights
  };

  bool sharded() const { return groups_.gather->size() > 1; }
  bool reduces_each_micro_batch() const {
    return sharded() && accumulation_ == Accumulation::sharded;
  }
  void plan_section(Section& section, SlotPool& slots);
  void start_gather(Section& section);
  void point_storage(Section& section, const Tensor& buffer);
  void drop_storage(Section& section);
  void release_gradient_views();
  void close();  // reduces when it was the last of a micro-batch or of the step
  void reduce();
  void sum_copies(Section& section);
  void reduce_section(Section& section);
  Tensor gradient_buffer(const Section& section) const {
    return section.full_gradient.defined() ? section.full_gradient : section.gradient_slot->buffer;
  }

  UnitSpec spec_;
  UnitOptions options_;
  UnitGroups groups_;
  Accumulation accumulation_;
  std::vector<Section> sections_;
  core::SideStream reduce_stream_;
  core::Event reduced_;
  int unsharded_ = 0;
  std::int64_t open_uses_ = 0, closed_ = 0, micro_batches_ = 1, reduced_micro_batches_ = 0;
  bool holds_gradient_slot_ = false, accumulating_ = false;
};

}  // namespace coeus::parallel
