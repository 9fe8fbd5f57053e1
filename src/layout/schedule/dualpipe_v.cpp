#include <algorithm>

#include "layout/schedule/builders.h"

namespace coeus::schedules {

// DualPipeV (Sea AI Lab and DeepSeek-AI 2025): the V of zbv, with each forward beside a backward of
// the other stage, so that the communication of one can hide behind the arithmetic of the other.
// Made for 2p micro-batches or more.
void dualpipe_v(const Shape& shape, std::int64_t rank, RankList& list) {
  const std::int64_t p = shape.num_ranks;
  const std::int64_t m = std::max(shape.num_micro_batches, 2 * p);
  const std::int64_t down = rank, up = 2 * p - 1 - rank;
  const std::int64_t below = p - rank - 1;  // ranks between here and the turn of the V

  for (std::int64_t i = 0; i < 2 * below; ++i) list.forward(down);
  for (std::int64_t i = 0; i < rank + 1; ++i) {
    list.forward(down);
    list.forward(up);
  }
  for (std::int64_t i = 0; i < below; ++i) {
    list.backward(up);
    list.weight();
    list.forward(up);
  }
  for (std::int64_t i = 0; i < m - 2 * p + rank + 1; ++i) {
    list.forward(down);
    list.backward_and_weight(up);
    list.forward(up);
    list.backward_and_weight(down);
  }
  for (std::int64_t i = 0; i < below; ++i) {
    list.backward_and_weight(up);
    list.forward(up);
    list.backward_and_weight(down);
  }
  // Of the backwards that alternate now, the second half puts its weights off.
  for (std::int64_t i = 0; i < 2 * (rank + 1); ++i) {
    const std::int64_t stage = i % 2 == 0 ? up : down;
    if (i < rank + 1) {
      list.backward_and_weight(stage);
    } else {
      list.backward(stage);
    }
  }
  for (std::int64_t i = 0; i < below; ++i) {
    list.weight();
    list.backward(down);
  }
  for (std::int64_t i = 0; i < rank + 1; ++i) list.weight();
}

}  // namespace coeus::schedules
