#pragma once
#include <optional>
#include <vector>

#include "layout/schedule/actions.h"

namespace coeus::schedules {

// Runs the compute lists of all ranks in rounds of one action a rank: as real ranks would, were all
// actions equally long.
class Sweep {
 public:
  explicit Sweep(const Schedule& compute_only)
      : schedule_(compute_only), next_(compute_only.ranks.size(), 0), done_(compute_only, 0) {}

  struct Ran {
    std::size_t rank;
    Action action;
  };
  // What runs in the next round, at most one action of a rank, by rank. Empty: all are done, or
  // those that are not wait for each other.
  std::vector<Ran> next_round();

  const Action* head(std::size_t rank) const;  // nullptr where the list is done
  // What the head of a list that is stuck waits for.
  std::optional<Action> missing_input(const Action& head) const;

 private:
  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  ActionMap<char> done_;
};

}  // namespace coeus::schedules
