#include <algorithm>

#include "base/error.h"
#include "comm/connect.h"
#include "comm/solo.h"
#include "core/torch.h"

namespace coeus::comm {

Communicator& Groups::open(const std::string& axis, const std::string& purpose) {
  const std::string name = purpose.empty() ? axis : axis + "." + purpose;
  auto& slot = open_[name];
  if (slot) return *slot;
  const int rank = world_.world_ranks()[static_cast<std::size_t>(world_.rank())];
  if (mesh_.degree(axis) == 1) {
    slot = make_solo(name, rank);
    return *slot;
  }
  const auto groups = mesh_.groups(axis);
  const auto mine = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return std::find(group.begin(), group.end(), rank) != group.end();
  });
  COEUS_ASSERT(mine != groups.end(), "rank {} is in no group of axis {}", rank, axis);
  const std::vector<int> members(mine->begin(), mine->end());
  slot = world_.open_group(members, static_cast<int>(mine - groups.begin()), name);
  return *slot;
}

void Groups::abort_all(const std::string& reason) noexcept {
  world_.abort(reason);
  for (auto& [name, communicator] : open_) {
    if (communicator) communicator->abort(reason);
  }
}

void Groups::rearm_all() {
  world_.rearm();
  for (auto& [name, communicator] : open_) communicator->rearm();
}

}  // namespace coeus::comm
