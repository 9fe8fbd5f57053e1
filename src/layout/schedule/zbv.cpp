#include <algorithm>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

// ZB-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two stages a rank in the
// shape of a V, `down` on the way to the last rank and `up` on the way back, so that every rank
// holds the same: p micro-batches. Made for 2p−1 micro-batches or more.
void zbv(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t p = shape.num_ranks;
  const std::int64_t m = std::max(shape.num_micro_batches, 2 * p - 1);
  const std::int64_t down = rank, up = 2 * p - 1 - rank;

  // Until the first micro-batch has gone down from here and come back up.
  for (std::int64_t i = 0; i < 2 * (p - rank) - 1; ++i) list.forward(down);
  for (std::int64_t i = 0; i < rank; ++i) {
    list.forward(up);
    list.forward(down);
  }
  // Until the first dY has gone the same way.
  for (std::int64_t i = 0; i < p - rank; ++i) {
    list.forward(up);
    list.backward_and_weight(up);
  }
  while (list.num_forwards(up) < m) {
    if (list.num_forwards(down) < m) list.forward(down);
    list.backward_and_weight(down);
    list.forward(up);
    list.backward_and_weight(up);
  }
  // Nothing left to run forward: the others wait for dX, so weights come last.
  for (std::int64_t i = 0; i < rank; ++i) {
    list.backward(down);
    list.backward(up);
  }
  for (std::int64_t i = 0; i < p - rank; ++i) {
    list.backward(down);
    list.weight_of(down);
  }
  while (list.num_weights(up) < m) list.weight_of(up);
  while (list.num_weights(down) < m) list.weight_of(down);
}

}  // namespace coeus::schedules
