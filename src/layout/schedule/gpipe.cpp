#include "layout/schedule/builders.h"

namespace coeus::schedules {

// All forwards, then all backwards (Huang et al. 2019). Each backward sends its dX before the
// weights are formed: the bubble is (p−1)(F+B), not (p−1)(F+B+W).
void gpipe(const Shape& shape, std::int64_t rank, RankList& list) {
  for (std::int64_t i = 0; i < shape.num_micro_batches; ++i) list.forward(rank);
  for (std::int64_t i = 0; i < shape.num_micro_batches; ++i) list.backward_and_weight(rank);
}

}  // namespace coeus::schedules
