#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "layout/schedule/schedule.h"

// Runs a schedule's lists on numbers in place of tensors, knowing nothing of the checker: what a
// stage computes is a mix of all it was given, a message is what the other side's list hands over
// at that point, whatever either side calls it.
namespace coeus::testing {

using Value = std::uint64_t;
using Key = std::pair<std::int64_t, std::int64_t>;  // stage, micro-batch

inline Value mix(Value a, Value b) {
  Value x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x7f4a7c159e3779b9ULL);
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 32);
}

// What each stage did, in its order: the results of forward, backward and weight.
struct Outcome {
  std::map<std::int64_t, std::vector<Value>> forwards, backwards, weights;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Memory {
  std::map<Key, Value> inputs, outputs, gradients, dx;
};

inline Value forward_of(std::int64_t stage, Value input) {
  return mix(mix(1, static_cast<Value>(stage)), input);
}
inline Value backward_of(std::int64_t stage, Value input, Value gradient) {
  return mix(mix(2, static_cast<Value>(stage)), mix(input, gradient));
}
inline Value weight_of(std::int64_t stage, Value input, Value gradient) {
  return mix(mix(3, static_cast<Value>(stage)), mix(input, gradient));
}
inline Value sample(std::int64_t micro_batch) {
  return mix(7, static_cast<Value>(micro_batch));
}

// One micro-batch after the other, through the whole chain and back.
inline Outcome reference_outcome(std::int64_t num_stages, std::int64_t num_micro_batches) {
  Outcome outcome;
  for (std::int64_t i = 0; i < num_micro_batches; ++i) {
    std::vector<Value> inputs{sample(i)};
    for (std::int64_t s = 0; s < num_stages; ++s) {
      inputs.push_back(forward_of(s, inputs.back()));
      outcome.forwards[s].push_back(inputs.back());
    }
    Value gradient = inputs.back();  // the loss of the last output
    for (std::int64_t s = num_stages - 1; s >= 0; --s) {
      const Value input = inputs[static_cast<std::size_t>(s)];
      outcome.weights[s].push_back(weight_of(s, input, gradient));
      gradient = backward_of(s, input, gradient);
      outcome.backwards[s].push_back(gradient);
    }
  }
  return outcome;
}

// by_lists: only what is sent reaches another rank. by_hand: every result is at once where it is
// needed (lists without transfers).
enum class Delivery { by_lists, by_hand };

class Interpreter {
 public:
  Interpreter(const Schedule& schedule, Delivery delivery)
      : s_(schedule),
        delivery_(delivery),
        memory_(schedule.ranks.size()),
        next_(memory_.size(), 0) {}

  // nullopt: the ranks hang, or one uses what it does not have.
  std::optional<Outcome> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        while (const Action* a = head(rank)) {
          if (!step(rank, *a)) break;
          moved = true;
        }
        if (broken_) return std::nullopt;
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (head(rank)) return std::nullopt;
    }
    return outcome_;
  }

 private:
  using Kind = Action::Kind;

  const Action* head(std::size_t rank) const {
    return next_[rank] < s_.ranks[rank].size() ? &s_.ranks[rank][next_[rank]] : nullptr;
  }
  static bool sends(Kind k) { return k == Kind::send_forward || k == Kind::send_backward; }
  static bool receives(Kind k) { return k == Kind::receive_forward || k == Kind::receive_backward; }

  bool fail() {
    broken_ = delivery_ == Delivery::by_lists;  // by hand it may still come
    return false;
  }

  bool step(std::size_t rank, const Action& a) {
    if (receives(a.kind)) return false;  // the sender moves both
    if (sends(a.kind)) return send(rank, a);
    if (s_.rank_of_stage[static_cast<std::size_t>(a.stage)] != static_cast<std::int64_t>(rank)) {
      broken_ = true;  // it has not that stage's weights
      return false;
    }
    if (!compute(rank, a)) return fail();
    next_[rank]++;
    return true;
  }

  bool send(std::size_t rank, const Action& a) {
    if (a.peer < 0 || a.peer >= static_cast<std::int64_t>(next_.size())) return fail();
    const auto peer = static_cast<std::size_t>(a.peer);
    const Action* other = head(peer);
    if (!other || !receives(other->kind) || other->peer != static_cast<std::int64_t>(rank)) {
      return false;
    }
    const auto& from = a.kind == Kind::send_forward ? memory_[rank].outputs : memory_[rank].dx;
    const auto found = from.find({a.stage, a.micro_batch});
    if (found == from.end()) return fail();
    auto& to =
        other->kind == Kind::receive_forward ? memory_[peer].inputs : memory_[peer].gradients;
    to[{other->stage, other->micro_batch}] = found->second;
    next_[rank]++;
    next_[peer]++;
    return true;
  }

  // Where the result of `stage` is needed on `rank`, or anywhere if it is delivered by hand.
  std::optional<std::size_t> destination(std::size_t rank, std::int64_t stage) const {
    if (stage < 0 || stage >= s_.num_stages) return std::nullopt;
    const auto owner = static_cast<std::size_t>(s_.rank_of_stage[static_cast<std::size_t>(stage)]);
    if (owner != rank && delivery_ == Delivery::by_lists) return std::nullopt;
    return owner;
  }

  bool compute(std::size_t rank, const Action& a) {
    Memory& m = memory_[rank];
    const Key key{a.stage, a.micro_batch};
    if (a.kind == Kind::forward) {
      if (a.stage == 0) m.inputs[key] = sample(a.micro_batch);
      if (!m.inputs.contains(key)) return false;
      const Value output = m.outputs[key] = forward_of(a.stage, m.inputs[key]);
      outcome_.forwards[a.stage].push_back(output);
      if (a.stage + 1 == s_.num_stages) m.gradients[key] = output;
      if (auto to = destination(rank, a.stage + 1)) {
        memory_[*to].inputs[{a.stage + 1, a.micro_batch}] = output;
      }
      return true;
    }
    if (!m.outputs.contains(key) || !m.gradients.contains(key)) return false;
    if (a.kind == Kind::weight) {
      if (!m.dx.contains(key)) return false;
      outcome_.weights[a.stage].push_back(weight_of(a.stage, m.inputs[key], m.gradients[key]));
      return true;
    }
    const Value dx = m.dx[key] = backward_of(a.stage, m.inputs[key], m.gradients[key]);
    outcome_.backwards[a.stage].push_back(dx);
    if (auto to = destination(rank, a.stage - 1)) {
      memory_[*to].gradients[{a.stage - 1, a.micro_batch}] = dx;
    }
    return true;
  }

  const Schedule& s_;
  Delivery delivery_;
  std::vector<Memory> memory_;
  std::vector<std::size_t> next_;
  Outcome outcome_;
  bool broken_ = false;
};

// Whether the lists do what one rank would, stage by stage in the same order.
inline bool does_the_same(const Schedule& schedule, Delivery delivery) {
  return Interpreter(schedule, delivery).run() ==
         reference_outcome(schedule.num_stages, schedule.num_micro_batches);
}

// Every built-in schedule for p ranks and m micro-batches, with one to three stages a rank where it
// takes any number.
inline std::vector<Schedule> all_schedules(std::int64_t p, std::int64_t m) {
  std::vector<Schedule> all;
  for (const char* name : {"gpipe", "1f1b", "zero_bubble"}) {
    all.push_back(make_schedule(name, p, 1, m));
  }
  for (const char* name : {"interleaved_1f1b", "looped_bfs"}) {
    for (std::int64_t v : {1, 2, 3}) all.push_back(make_schedule(name, p, v, m));
  }
  for (const char* name : {"zbv", "dualpipe_v"}) all.push_back(make_schedule(name, p, 2, m));
  return all;
}

}  // namespace coeus::testing
