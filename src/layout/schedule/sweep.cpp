#include "layout/schedule/sweep.h"

namespace coeus::schedules {

const Action* Sweep::head(std::size_t rank) const {
  const auto& list = schedule_.ranks[rank];
  return next_[rank] < list.size() ? &list[next_[rank]] : nullptr;
}

std::optional<Action> Sweep::missing_input(const Action& head) const {
  for (const Action& input : inputs_of(schedule_, head)) {
    if (!done_[input]) return input;
  }
  return std::nullopt;
}

std::vector<Sweep::Ran> Sweep::next_round() {
  std::vector<Ran> round;
  for (std::size_t rank = 0; rank < next_.size(); ++rank) {
    const Action* action = head(rank);
    if (action && !missing_input(*action)) round.push_back({rank, *action});
  }
  for (const Ran& ran : round) {
    done_[ran.action] = 1;
    next_[ran.rank]++;
  }
  return round;
}

}  // namespace coeus::schedules
