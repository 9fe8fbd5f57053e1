#include "estimate/memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "layout/flat_layout.h"

namespace coeus::estimate {
namespace {

constexpr std::int64_t kGradientBytes = 4, kMasterBytes = 4;
// One in use, one being filled or reduced, as in parallel/unit/slots.h.
constexpr std::int64_t kSlotsPerClass = 2;

// Units of one size and type take turns in the slots of a class.
class SlotClasses {
 public:
  void add(std::int64_t slot_bytes, std::int64_t elements, std::int64_t element_bytes) {
    auto& c = classes_[{elements, element_bytes}];
    c.slot_bytes = slot_bytes;
    c.units++;
  }
  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const auto& [key, c] : classes_) {
      total += std::min(c.units, kSlotsPerClass) * c.slot_bytes;
    }
    return total;
  }

 private:
  struct Class {
    std::int64_t slot_bytes = 0, units = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Class> classes_;
};

class Sum {
 public:
  Sum(std::int64_t group, const MemoryOptions& options) : group_(group), options_(options) {}

  void add(const FlatSection& section, Accumulation accumulation) {
    const std::int64_t full = section.num_elements, part = section.shard_elements();
    const bool fp32 = section.compute == ComputeType::fp32;
    const std::int64_t weight_bytes = fp32 ? 4 : options_.compute_bytes;
    if (group_ == 1 || options_.residency == Residency::persistent) {
      bytes_.weights += full * weight_bytes;
    } else {
      bytes_.weights += part * weight_bytes;
      weight_slots_.add(full * weight_bytes, full, weight_bytes);
    }
    if (group_ == 1 || accumulation == Accumulation::full) {
      bytes_.gradients += full * kGradientBytes;
    } else {
      bytes_.gradients += part * kGradientBytes;
      gradient_slots_.add((full + part) * kGradientBytes, full, kGradientBytes);  // and its scratch
    }
    if (weight_bytes != kMasterBytes) bytes_.master += part * kMasterBytes;
    bytes_.moments += part * options_.moment_bytes * options_.num_moments;
  }

  MemoryBytes result() const {
    MemoryBytes bytes = bytes_;
    bytes.weights += weight_slots_.bytes();
    bytes.gradients += gradient_slots_.bytes();
    return bytes;
  }

 private:
  std::int64_t group_;
  MemoryOptions options_;
  MemoryBytes bytes_;
  SlotClasses weight_slots_, gradient_slots_;
};

}  // namespace

MemoryBytes predict_memory(const ModelSpec& model, const ParallelPlan& plan, const Mesh& mesh,
                           const MemoryOptions& options) {
  for (const char* axis : {"tp", "pp", "ep"}) {
    COEUS_ASSERT(mesh.degree(axis) == 1, "memory under {} is not predicted", axis);
  }
  const std::int64_t group = mesh.degree("fsdp");
  Sum sum(group, options);
  for (const auto& unit : plan_units(model, plan)) {
    // The head writes its gradient in forward: its unit keeps a full-sized one.
    const bool holds_head = std::find(unit.layers.begin(), unit.layers.end(),
                                      model.layers.back().name) != unit.layers.end();
    for (const auto& section : flat_layout(unit.parameters, group)) {
      sum.add(section, holds_head ? Accumulation::full : options.accumulation);
    }
  }
  return sum.result();
}

}  // namespace coeus::estimate
