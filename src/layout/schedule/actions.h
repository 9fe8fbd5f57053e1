#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "layout/schedule/schedule.h"

namespace coeus::schedules {

inline bool is_compute(Action::Kind kind) {
  return kind == Action::Kind::forward || kind == Action::Kind::backward ||
         kind == Action::Kind::weight;
}

// A value for each (kind, stage, micro-batch) of a schedule.
template <class T>
class ActionMap {
 public:
  ActionMap(const Schedule& schedule, const T& initial)
      : num_stages_(schedule.num_stages),
        num_micro_batches_(schedule.num_micro_batches),
        values_(static_cast<std::size_t>(kKinds * num_stages_ * num_micro_batches_), initial) {}
  T& operator[](const Action& a) { return values_[index(a)]; }
  const T& operator[](const Action& a) const { return values_[index(a)]; }

 private:
  static constexpr std::int64_t kKinds = 7;
  std::size_t index(const Action& a) const {
    const auto kind = static_cast<std::int64_t>(a.kind);
    return static_cast<std::size_t>((kind * num_stages_ + a.stage) * num_micro_batches_ +
                                    a.micro_batch);
  }
  std::int64_t num_stages_, num_micro_batches_;
  std::vector<T> values_;
};

std::int64_t rank_of(const Schedule& schedule, std::int64_t stage);

// The compute actions whose results a compute action needs.
std::vector<Action> inputs_of(const Schedule& schedule, const Action& compute);

// The stage at the other end of a transfer, or the one that a compute action's result goes to;
// nullopt beyond either end of the chain.
std::optional<std::int64_t> neighbour_stage(const Schedule& schedule, const Action& action);

// The send and the receive that carry a compute action's result to another rank; nullopt where it
// stays. Results of forward and backward travel, those of weight never do.
struct Transfer {
  std::int64_t from, to;
  Action send, receive;
};
std::optional<Transfer> transfer_of(const Schedule& schedule, const Action& compute);

// The other end: a send's receive, a receive's send.
Action partner_of(const Schedule& schedule, const Action& transfer);

}  // namespace coeus::schedules
