#pragma once
#include <cstdint>
#include <vector>

#include "layout/mesh.h"
#include "layout/plan.h"
#include "layout/stages.h"

namespace coeus::estimate {

enum class Residency { resharded, persistent };  // persistent: full weights stay allocated
enum class Accumulation { sharded, full };       // full: full-sized gradients over micro-batches

struct MemoryOptions {
  std::int64_t compute_bytes =
      2;  // of one weight as computed with; 4: the weight is its own master
  std::int64_t moment_bytes = 4, num_moments = 2;
  Residency residency = Residency::resharded;
  Accumulation accumulation = Accumulation::sharded;
  bool sequence_parallel = true;
  std::vector<StageRange> stages = {};  // the rank's; empty: the whole chain
};

// What one rank holds over the whole run, padding and the slots that units take turns in included.
struct MemoryBytes {
  std::int64_t weights = 0, gradients = 0, master = 0, moments = 0;
  std::int64_t total() const { return weights + gradients + master + moments; }
};

// What the rank with the largest parts holds of a model over a mesh. Activations are not counted.
MemoryBytes predict_memory(const ModelSpec& model, const ParallelPlan& plan, const Mesh& mesh,
                           const MemoryOptions& options);

}  // namespace coeus::estimate
