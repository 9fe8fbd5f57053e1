#include <algorithm>

#include "base/error.h"
#include "layout/schedule/actions.h"
#include "layout/schedule/sweep.h"

namespace coeus {

// All transfers of a round follow all its computations, so that a rank which has something to run
// does not first wait for what is only being made.
Schedule with_transfers(const Schedule& compute_only) {
  Schedule full = compute_only;
  for (auto& list : full.ranks) list.clear();
  schedules::Sweep sweep(compute_only);
  for (auto round = sweep.next_round(); !round.empty(); round = sweep.next_round()) {
    for (const auto& ran : round) full.ranks[ran.rank].push_back(ran.action);
    for (const auto& ran : round) {
      const auto transfer = schedules::transfer_of(compute_only, ran.action);
      if (!transfer) continue;
      full.ranks[static_cast<std::size_t>(transfer->from)].push_back(transfer->send);
      full.ranks[static_cast<std::size_t>(transfer->to)].push_back(transfer->receive);
    }
  }
  for (std::size_t rank = 0; rank < full.ranks.size(); ++rank) {
    COEUS_ASSERT(!sweep.head(rank), "schedule {}: rank {} is stuck; it was not checked",
                 compute_only.name, rank);
  }
  return full;
}

}  // namespace coeus
