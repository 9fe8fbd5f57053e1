#include "estimate/memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "layout/flat_layout.h"
#include "layout/place.h"

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
  explicit Sum(const MemoryOptions& options) : options_(options) {}

  // Experts take turns in slots of their own.
  void add(const FlatSection& section, Accumulation accumulation, bool experts) {
    const std::int64_t full = section.num_elements, part = section.shard_elements();
    const bool alone = section.group == 1, fp32 = section.compute == ComputeType::fp32;
    const std::int64_t weight_bytes = fp32 ? 4 : options_.compute_bytes;
    if (alone || options_.residency == Residency::persistent) {
      bytes_.weights += full * weight_bytes;
    } else {
      bytes_.weights += part * weight_bytes;
      weight_slots_[experts].add(full * weight_bytes, full, weight_bytes);
    }
    if (alone || accumulation == Accumulation::full) {
      bytes_.gradients += full * kGradientBytes;
    } else {
      bytes_.gradients += part * kGradientBytes;
      gradient_slots_[experts].add((full + part) * kGradientBytes, full,
                                   kGradientBytes);  // and its scratch
    }
    if (weight_bytes != kMasterBytes) bytes_.master += part * kMasterBytes;
    bytes_.moments += part * options_.moment_bytes * options_.num_moments;
  }

  MemoryBytes result() const {
    MemoryBytes bytes = bytes_;
    for (const bool experts : {false, true}) {
      bytes.weights += weight_slots_[experts].bytes();
      bytes.gradients += gradient_slots_[experts].bytes();
    }
    return bytes;
  }

 private:
  MemoryOptions options_;
  MemoryBytes bytes_;
  SlotClasses weight_slots_[2], gradient_slots_[2];
};

bool lies_in(const std::string& layer, const std::string& chain_layer) {
  return layer == chain_layer || layer.starts_with(chain_layer + ".");
}

}  // namespace

MemoryBytes predict_memory(const ModelSpec& model, const ParallelPlan& plan, const Mesh& mesh,
                           const MemoryOptions& options) {
  const ModelSpec placed = place(model, plan,
                                 {.tp_degree = mesh.degree("tp"),
                                  .ep_degree = mesh.degree("ep"),
                                  .sequence_parallel = options.sequence_parallel});
  std::vector<std::string> here;
  const std::vector<StageRange> all = {{0, model.layers.size()}};
  for (const auto& range : options.stages.empty() ? all : options.stages) {
    for (auto i = range.begin; i < range.end; ++i) here.push_back(model.layers[i].name);
  }
  const auto is_here = [&](const std::string& layer) {
    return std::any_of(here.begin(), here.end(),
                       [&](const std::string& h) { return lies_in(layer, h); });
  };
  Sum sum(options);
  for (const auto& unit : plan_units(placed, plan)) {
    if (std::none_of(unit.layers.begin(), unit.layers.end(), is_here)) continue;
    // The head writes its gradient in forward: its unit keeps a full-sized one.
    const std::string& head = model.layers.back().name;
    const bool holds_head = is_here(head) && std::find(unit.layers.begin(), unit.layers.end(),
                                                       head) != unit.layers.end();
    for (const auto& section :
         flat_layout(unit.parameters, mesh.degree(unit.experts ? "efsdp" : "fsdp"))) {
      sum.add(section, holds_head ? Accumulation::full : options.accumulation, unit.experts);
    }
  }
  return sum.result();
}

}  // namespace coeus::estimate
