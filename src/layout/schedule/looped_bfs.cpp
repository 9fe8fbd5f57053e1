#include "layout/schedule/builders.h"

namespace coeus::schedules {

// Breadth first over v stages a rank (Lamy-Poirier 2022): all micro-batches through one stage
// before the next, so that a unit's weights are gathered once for all of them.
void looped_bfs(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t p = shape.num_ranks, v = shape.stages_per_rank;
  for (std::int64_t chunk = 0; chunk < v; ++chunk) {
    for (std::int64_t i = 0; i < shape.num_micro_batches; ++i) list.forward(chunk * p + rank);
  }
  for (std::int64_t chunk = v - 1; chunk >= 0; --chunk) {
    for (std::int64_t i = 0; i < shape.num_micro_batches; ++i) {
      list.backward_and_weight(chunk * p + rank);
    }
  }
}

}  // namespace coeus::schedules
