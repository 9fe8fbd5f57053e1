#include <algorithm>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

// ZB-H1 (Qi et al. 2023): 1F1B in which rank r puts off the weights of r micro-batches and fills
// the gaps at the end with them. A micro-batch is held until its weights are done, and no rank
// holds more than p, which is what the first rank of 1F1B holds.
void zero_bubble(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t p = shape.num_ranks, m = shape.num_micro_batches;
  for (std::int64_t i = 0; i < std::min(m, p - rank); ++i) list.forward(rank);
  for (std::int64_t i = 0; i < m; ++i) {
    list.backward(rank);
    const std::int64_t forwards = list.num_forwards(rank);
    const bool full = forwards - list.num_weights(rank) == p;
    if (forwards == m || full) list.weight();
    if (forwards < m) list.forward(rank);
  }
  while (list.num_weights(rank) < m) list.weight();
}

}  // namespace coeus::schedules
