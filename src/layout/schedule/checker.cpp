#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "layout/schedule/actions.h"
#include "layout/schedule/sweep.h"

// The faults are looked for in the order of how many actions it takes to show them: one (missing,
// doubled, on a wrong rank), two (in a wrong order), then cycles, the shortest first.
namespace coeus {
namespace {

using schedules::ActionMap;
using schedules::inputs_of;
using schedules::is_compute;
using schedules::neighbour_stage;
using schedules::partner_of;
using schedules::rank_of;
using schedules::Sweep;
using Kind = Action::Kind;
using Fault = std::optional<std::string>;

enum class Lists { compute_only, with_transfers };
constexpr Kind kTransfers[] = {Kind::send_forward, Kind::receive_forward, Kind::send_backward,
                               Kind::receive_backward};

Fault shape_fault(const Schedule& s) {
  if (s.num_ranks < 1 || s.num_stages < 1 || s.num_micro_batches < 1 ||
      static_cast<std::int64_t>(s.ranks.size()) != s.num_ranks) {
    return fmt::format("{} lists for {} ranks, {} stages and {} micro-batches", s.ranks.size(),
                       s.num_ranks, s.num_stages, s.num_micro_batches);
  }
  if (static_cast<std::int64_t>(s.rank_of_stage.size()) != s.num_stages) {
    return fmt::format("{} of {} stages have a rank", s.rank_of_stage.size(), s.num_stages);
  }
  for (std::int64_t stage = 0; stage < s.num_stages; ++stage) {
    const std::int64_t rank = rank_of(s, stage);
    if (rank >= 0 && rank < s.num_ranks) continue;
    return rank == -1 ? fmt::format("no rank runs stage {}", stage)
                      : fmt::format("stage {} is given to rank {}, but there are {} ranks", stage,
                                    rank, s.num_ranks);
  }
  return std::nullopt;
}

// Position in its rank's list, -1 where it is in none.
using Positions = ActionMap<std::int64_t>;

Fault transfer_fault(const Schedule& s, std::size_t rank, const Action& a) {
  const auto other = neighbour_stage(s, a);
  if (!other) {
    return fmt::format("rank {}: {}: there is no stage at the other end", rank, describe(a));
  }
  if (rank_of(s, *other) == rank_of(s, a.stage)) {
    return fmt::format("rank {}: {}: stages {} and {} are both on rank {}, nothing is to be sent",
                       rank, describe(a), a.stage, *other, rank_of(s, a.stage));
  }
  if (a.peer != rank_of(s, *other)) {
    return fmt::format("rank {}: {}: wrong peer, stage {} is on rank {}", rank, describe(a), *other,
                       rank_of(s, *other));
  }
  return std::nullopt;
}

Fault place_fault(const Schedule& s, Lists lists, std::size_t rank, const Action& a) {
  if (a.stage < 0 || a.stage >= s.num_stages || a.micro_batch < 0 ||
      a.micro_batch >= s.num_micro_batches) {
    return fmt::format("rank {}: {}: there are {} stages and {} micro-batches", rank, describe(a),
                       s.num_stages, s.num_micro_batches);
  }
  if (rank_of(s, a.stage) != static_cast<std::int64_t>(rank)) {
    return fmt::format("rank {}: {}: stage {} is on rank {}", rank, describe(a), a.stage,
                       rank_of(s, a.stage));
  }
  if (is_compute(a.kind)) return std::nullopt;
  if (lists == Lists::compute_only) {
    return fmt::format("rank {}: {}: only compute actions are expected", rank, describe(a));
  }
  return transfer_fault(s, rank, a);
}

Fault missing(const Schedule& s, const Positions& at, Kind kind, std::int64_t stage) {
  const bool compute = is_compute(kind);
  for (std::int64_t i = 0; i < s.num_micro_batches; ++i) {
    Action a{kind, stage, i};
    if (at[a] >= 0) continue;
    if (compute) return fmt::format("rank {} lacks {}", rank_of(s, stage), describe(a));
    a.peer = rank_of(s, *neighbour_stage(s, a));
    const Action partner = partner_of(s, a);
    if (at[partner] < 0) return fmt::format("rank {} lacks {}", rank_of(s, stage), describe(a));
    return fmt::format("rank {} lacks {}, so that rank {} waits for ever in {} (action {})",
                       rank_of(s, stage), describe(a), a.peer, describe(partner), at[partner]);
  }
  return std::nullopt;
}

// Fills `at`. Each action stands once, on the right rank, with the right peer.
Fault once_fault(const Schedule& s, Lists lists, Positions& at) {
  for (std::size_t rank = 0; rank < s.ranks.size(); ++rank) {
    const auto& list = s.ranks[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (auto fault = place_fault(s, lists, rank, list[i])) return fault;
      std::int64_t& position = at[list[i]];
      if (position >= 0) {
        return fmt::format("rank {} has {} twice, as actions {} and {}", rank, describe(list[i]),
                           position, i);
      }
      position = static_cast<std::int64_t>(i);
    }
  }
  for (std::int64_t stage = 0; stage < s.num_stages; ++stage) {
    for (Kind kind : {Kind::forward, Kind::backward, Kind::weight}) {
      if (auto fault = missing(s, at, kind, stage)) return fault;
    }
    if (lists == Lists::compute_only) continue;
    for (Kind kind : kTransfers) {
      const auto other = neighbour_stage(s, {kind, stage, 0});
      if (!other || rank_of(s, *other) == rank_of(s, stage)) continue;
      if (auto fault = missing(s, at, kind, stage)) return fault;
    }
  }
  return std::nullopt;
}

// What must come before `a` in its own rank's list.
std::vector<Action> local_predecessors(const Schedule& s, Lists lists, const Action& a) {
  std::vector<Action> before;
  if (a.kind == Kind::send_forward) before.push_back({Kind::forward, a.stage, a.micro_batch});
  if (a.kind == Kind::send_backward) before.push_back({Kind::backward, a.stage, a.micro_batch});
  if (!is_compute(a.kind)) return before;
  for (const Action& input : inputs_of(s, a)) {
    if (rank_of(s, input.stage) == rank_of(s, a.stage)) {
      before.push_back(input);
    } else if (lists == Lists::with_transfers) {
      const bool forward = a.kind == Kind::forward;
      before.push_back(
          {forward ? Kind::receive_forward : Kind::receive_backward, a.stage, a.micro_batch});
    }
  }
  if (a.micro_batch > 0) before.push_back({a.kind, a.stage, a.micro_batch - 1});
  return before;
}

Fault order_fault(const Schedule& s, Lists lists, const Positions& at) {
  for (std::size_t rank = 0; rank < s.ranks.size(); ++rank) {
    const auto& list = s.ranks[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (const Action& before : local_predecessors(s, lists, list[i])) {
        const std::int64_t position = at[before];
        if (position < static_cast<std::int64_t>(i)) continue;
        const Action& there = list[static_cast<std::size_t>(position)];
        const bool order_only = before.kind == list[i].kind && before.stage == list[i].stage;
        return fmt::format("rank {}: {} (action {}) comes before {} (action {}){}", rank,
                           describe(list[i]), i, describe(there), position,
                           order_only ? ": micro-batches must ascend" : ", which it needs");
      }
    }
  }
  return std::nullopt;
}

// A rank whose next action cannot run before `wanted` did, which another has further down its list.
struct Wait {
  Action next, wanted;
  std::size_t holder;
};

// Each stuck rank waits for one other stuck rank: follow them from each; the shortest ring wins.
std::string shortest_cycle(const std::vector<std::optional<Wait>>& waits) {
  std::vector<std::size_t> shortest;
  for (std::size_t first = 0; first < waits.size(); ++first) {
    if (!waits[first]) continue;
    std::vector<std::size_t> ring{first};
    std::size_t at = waits[first]->holder;
    while (at != first && ring.size() <= waits.size()) {
      ring.push_back(at);
      at = waits[at]->holder;
    }
    if (at == first && (shortest.empty() || ring.size() < shortest.size())) shortest = ring;
  }
  std::vector<std::string> lines;
  for (std::size_t rank : shortest) {
    const Wait& wait = *waits[rank];
    const Action& first = waits[wait.holder]->next;
    lines.push_back(fmt::format(
        "rank {} cannot run {} before rank {} runs {}{}", rank, describe(wait.next), wait.holder,
        describe(wait.wanted),
        first == wait.wanted ? "" : fmt::format(", which it has behind {}", describe(first))));
  }
  return fmt::format("deadlock: {}", fmt::join(lines, "; "));
}

Fault compute_deadlock(const Schedule& s) {
  Sweep sweep(s);
  while (!sweep.next_round().empty()) {
  }
  std::vector<std::optional<Wait>> waits(s.ranks.size());
  bool stuck = false;
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    const Action* head = sweep.head(rank);
    if (!head) continue;
    const Action wanted = *sweep.missing_input(*head);
    waits[rank] = Wait{*head, wanted, static_cast<std::size_t>(rank_of(s, wanted.stage))};
    stuck = true;
  }
  if (!stuck) return std::nullopt;
  return shortest_cycle(waits);
}

// A send and its receive happen together, when both are the next of their ranks.
Fault rendezvous_deadlock(const Schedule& s) {
  std::vector<std::size_t> next(s.ranks.size(), 0);
  const auto head = [&](std::size_t rank) -> const Action* {
    return next[rank] < s.ranks[rank].size() ? &s.ranks[rank][next[rank]] : nullptr;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      for (const Action* a = head(rank); a; a = head(rank)) {
        if (!is_compute(a->kind)) {
          const auto peer = static_cast<std::size_t>(a->peer);
          const Action* other = head(peer);
          if (!other || *other != partner_of(s, *a)) break;
          next[peer]++;
        }
        next[rank]++;
        moved = true;
      }
    }
  }
  std::vector<std::optional<Wait>> waits(next.size());
  bool stuck = false;
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    const Action* a = head(rank);
    if (!a) continue;
    waits[rank] = Wait{*a, partner_of(s, *a), static_cast<std::size_t>(a->peer)};
    stuck = true;
  }
  if (!stuck) return std::nullopt;
  return shortest_cycle(waits);
}

Fault check(const Schedule& s, Lists lists) {
  if (auto fault = shape_fault(s)) return fault;
  Positions at(s, -1);
  if (auto fault = once_fault(s, lists, at)) return fault;
  if (auto fault = order_fault(s, lists, at)) return fault;
  return lists == Lists::compute_only ? compute_deadlock(s) : rendezvous_deadlock(s);
}

}  // namespace

std::optional<std::string> check_schedule(const Schedule& compute_only) {
  if (auto fault = check(compute_only, Lists::compute_only)) return fault;
  return check_transfers(with_transfers(compute_only));
}

std::optional<std::string> check_transfers(const Schedule& with_transfers) {
  return check(with_transfers, Lists::with_transfers);
}

}  // namespace coeus
