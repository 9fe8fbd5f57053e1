#include <algorithm>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

// 1F1B over v stages a rank (Narayanan et al. 2021): micro-batches go in groups of p through a
// rank's first stage, then its second, and so on; backwards the stages come in reverse. The last
// group takes the remainder, so it holds p to 2p−1 (a group smaller than p would leave ranks idle
// between two of its stages).
void interleaved_1f1b(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t p = shape.num_ranks, v = shape.stages_per_rank, m = shape.num_micro_batches;
  const std::int64_t num_groups = std::max<std::int64_t>(1, m / p);
  const std::int64_t last_group = m - (num_groups - 1) * p;
  std::vector<std::int64_t> forwards, backwards;  // the stages in the order of their turns
  for (std::int64_t group = 0; group < num_groups; ++group) {
    const auto size = static_cast<std::size_t>(group + 1 < num_groups ? p : last_group);
    for (std::int64_t chunk = 0; chunk < v; ++chunk) {
      forwards.insert(forwards.end(), size, chunk * p + rank);
      backwards.insert(backwards.end(), size, (v - 1 - chunk) * p + rank);
    }
  }
  // The way to the last rank and back, and the stages but one of a whole group.
  const std::int64_t ahead =
      std::min(m * v, 2 * (p - rank - 1) + (v - 1) * std::max(p, last_group));
  auto next_backward = backwards.begin();
  for (std::int64_t k = 0; k < m * v; ++k) {
    list.forward(forwards[static_cast<std::size_t>(k)]);
    if (k >= ahead) list.backward_and_weight(*next_backward++);
  }
  while (next_backward != backwards.end()) list.backward_and_weight(*next_backward++);
}

}  // namespace coeus::schedules
