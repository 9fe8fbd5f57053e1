#include <algorithm>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

// One forward, one backward (PipeDream-flush, Narayanan et al. 2021): rank r starts with the p−r−1
// forwards that it takes until its first dY can be there, and never holds more than p−r.
void one_forward_one_backward(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t m = shape.num_micro_batches;
  const std::int64_t ahead = std::min(m, shape.num_ranks - rank - 1);
  for (std::int64_t i = 0; i < ahead; ++i) list.forward(rank);
  for (std::int64_t i = ahead; i < m; ++i) {
    list.forward(rank);
    list.backward_and_weight(rank);
  }
  for (std::int64_t i = 0; i < ahead; ++i) list.backward_and_weight(rank);
}

}  // namespace coeus::schedules
