#include "layout/schedule/actions.h"

#include <fmt/format.h>

#include "base/error.h"

namespace coeus {

using Kind = Action::Kind;

namespace schedules {

std::int64_t rank_of(const Schedule& schedule, std::int64_t stage) {
  return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
}

std::vector<Action> inputs_of(const Schedule& schedule, const Action& a) {
  std::vector<Action> inputs;
  if (a.kind == Kind::forward) {
    if (a.stage > 0) inputs.push_back({Kind::forward, a.stage - 1, a.micro_batch});
  } else if (a.kind == Kind::backward) {
    inputs.push_back({Kind::forward, a.stage, a.micro_batch});
    if (a.stage + 1 < schedule.num_stages) {
      inputs.push_back({Kind::backward, a.stage + 1, a.micro_batch});
    }
  } else {
    COEUS_ASSERT(a.kind == Kind::weight, "{} is no compute action", describe(a));
    inputs.push_back({Kind::backward, a.stage, a.micro_batch});
  }
  return inputs;
}

std::optional<std::int64_t> neighbour_stage(const Schedule& schedule, const Action& a) {
  if (a.kind == Kind::weight) return std::nullopt;
  const bool up =
      a.kind == Kind::forward || a.kind == Kind::send_forward || a.kind == Kind::receive_backward;
  const std::int64_t neighbour = a.stage + (up ? 1 : -1);
  if (neighbour < 0 || neighbour >= schedule.num_stages) return std::nullopt;
  return neighbour;
}

std::optional<Transfer> transfer_of(const Schedule& schedule, const Action& a) {
  const auto to_stage = neighbour_stage(schedule, a);
  if (!to_stage) return std::nullopt;
  const std::int64_t from = rank_of(schedule, a.stage), to = rank_of(schedule, *to_stage);
  if (from == to) return std::nullopt;
  const bool forward = a.kind == Kind::forward;
  return Transfer{
      from,
      to,
      {forward ? Kind::send_forward : Kind::send_backward, a.stage, a.micro_batch, to},
      {forward ? Kind::receive_forward : Kind::receive_backward, *to_stage, a.micro_batch, from}};
}

Action partner_of(const Schedule& schedule, const Action& a) {
  const auto kind = [&] {
    switch (a.kind) {
      case Kind::send_forward:
        return Kind::receive_forward;
      case Kind::receive_forward:
        return Kind::send_forward;
      case Kind::send_backward:
        return Kind::receive_backward;
      default:
        return Kind::send_backward;
    }
  };
  const auto stage = neighbour_stage(schedule, a);
  COEUS_ASSERT(stage, "{} has no other end", describe(a));
  return {kind(), *stage, a.micro_batch, rank_of(schedule, a.stage)};
}

}  // namespace schedules

std::string describe(const Action& a) {
  switch (a.kind) {
    case Kind::forward:
      return fmt::format("forward of micro-batch {} on stage {}", a.micro_batch, a.stage);
    case Kind::backward:
      return fmt::format("backward of micro-batch {} on stage {}", a.micro_batch, a.stage);
    case Kind::weight:
      return fmt::format("weight gradients of micro-batch {} on stage {}", a.micro_batch, a.stage);
    case Kind::send_forward:
      return fmt::format("send of micro-batch {}'s output of stage {} to rank {}", a.micro_batch,
                         a.stage, a.peer);
    case Kind::receive_forward:
      return fmt::format("receive of micro-batch {}'s input of stage {} from rank {}",
                         a.micro_batch, a.stage, a.peer);
    case Kind::send_backward:
      return fmt::format("send of micro-batch {}'s dX of stage {} to rank {}", a.micro_batch,
                         a.stage, a.peer);
    case Kind::receive_backward:
      return fmt::format("receive of micro-batch {}'s dY of stage {} from rank {}", a.micro_batch,
                         a.stage, a.peer);
  }
  return "?";
}

bool delays_weights(const Schedule& schedule) {
  for (const auto& list : schedule.ranks) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind != Kind::weight) continue;
      const Action own{Kind::backward, list[i].stage, list[i].micro_batch};
      if (i == 0 || list[i - 1] != own) return true;
    }
  }
  return false;
}

}  // namespace coeus
