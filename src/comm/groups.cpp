#include <algorithm>

#include "base/error.h"
#include "comm/connect.h"
#include "comm/solo.h"
#include "core/torch.h"

namespace coeus::comm {

Communicator& Groups::open(const std::string& axis, const std::string& purpose) {
  const std::string name = purpose.empty() ? axis : axis + "." + purpose;
  if (name == "world") return world_;
  auto& slot = open_[name];
  if (slot) return *slot;
  const int rank = world_rank();
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

std::int64_t Groups::coordinate(const std::string& axis) const {
  return mesh_.coordinate(axis, world_rank());
}

Communicator& Groups::open_block(const std::string& axis, std::int64_t size) {
  if (size == mesh_.degree(axis)) return open(axis);
  auto& slot = open_[axis + ".block" + std::to_string(size)];
  if (slot) return *slot;
  const auto group = mesh_.group(axis, world_rank());
  const auto first = group.begin() + coordinate(axis) / size * size;
  const std::vector<int> members(first, first + size);
  slot = world_.open_group(members, members.front(), axis + ".block" + std::to_string(size));
  return *slot;
}

Communicator* Groups::open_subset(const std::string& axis,
                                  const std::vector<std::int64_t>& coordinates,
                                  const std::string& purpose) {
  const auto [place, is_new] = open_.try_emplace(axis + "." + purpose);
  if (!is_new) return place->second.get();
  const auto group = mesh_.group(axis, world_rank());
  std::vector<int> members;
  for (const auto c : coordinates)
    members.push_back(static_cast<int>(group.at(static_cast<std::size_t>(c))));
  const bool inside = std::find(members.begin(), members.end(), world_rank()) != members.end();
  place->second = world_.open_group(members, inside ? members.front() : -1, place->first);
  return place->second.get();
}

void Groups::abort_all(const std::string& reason) noexcept {
  world_.abort(reason);
  for (auto& [name, communicator] : open_) {
    if (communicator) communicator->abort(reason);
  }
}

void Groups::rearm_all() {
  world_.rearm();
  for (auto& [name, communicator] : open_) {
    if (communicator) communicator->rearm();
  }
}

}  // namespace coeus::comm
