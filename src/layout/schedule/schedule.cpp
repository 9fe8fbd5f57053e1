#include "layout/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/suggest.h"
#include "layout/schedule/builders.h"
#include "layout/schedule/file.h"

namespace coeus {
namespace {

using schedules::RankList;
using schedules::Shape;

constexpr std::int64_t kMaxActions = 10'000'000;

// Which rank holds which stage. one: stage s on rank s. round_robin: on rank s mod p. v_shape: two
// a rank, down the ranks and back up, so that rank 0 holds the first and the last.
enum class StageOrder { one, round_robin, v_shape };

struct Entry {
  const char* name;
  StageOrder order;
  void (*build)(const Shape& shape, std::int64_t rank, RankList& list);
};
const Entry kSchedules[] = {
    {"gpipe", StageOrder::one, schedules::gpipe},
    {"1f1b", StageOrder::one, schedules::one_forward_one_backward},
    {"interleaved_1f1b", StageOrder::round_robin, schedules::interleaved_1f1b},
    {"looped_bfs", StageOrder::round_robin, schedules::looped_bfs},
    {"zero_bubble", StageOrder::one, schedules::zero_bubble},
    {"zbv", StageOrder::v_shape, schedules::zbv},
    {"dualpipe_v", StageOrder::v_shape, schedules::dualpipe_v},
};

void check_stages_per_rank(const Entry& entry, std::int64_t stages_per_rank) {
  if (entry.order == StageOrder::v_shape && stages_per_rank != 2) {
    throw ConfigError(
        fmt::format("{} puts two stages on each rank: set pp_stages_per_rank to 2 (is {})",
                    entry.name, stages_per_rank));
  }
  if (entry.order != StageOrder::one || stages_per_rank == 1) return;
  const bool zero = std::string_view(entry.name) == "zero_bubble";
  throw ConfigError(fmt::format(
      "{} puts one stage on each rank, but pp_stages_per_rank is {}; {}", entry.name,
      stages_per_rank,
      zero ? "zbv puts two, interleaved_1f1b any number" : "interleaved_1f1b puts several"));
}

Schedule build(const Entry& entry, const Shape& shape) {
  Schedule schedule{.name = entry.name,
                    .num_ranks = shape.num_ranks,
                    .num_stages = shape.num_ranks * shape.stages_per_rank,
                    .num_micro_batches = shape.num_micro_batches,
                    .rank_of_stage = {},
                    .ranks = {}};
  for (std::int64_t stage = 0; stage < schedule.num_stages; ++stage) {
    const std::int64_t turn = stage % shape.num_ranks;
    const bool up = entry.order == StageOrder::v_shape && stage >= shape.num_ranks;
    schedule.rank_of_stage.push_back(up ? shape.num_ranks - 1 - turn : turn);
  }
  for (std::int64_t rank = 0; rank < shape.num_ranks; ++rank) {
    RankList list(shape.num_micro_batches);
    entry.build(shape, rank, list);
    schedule.ranks.push_back(list.take());
  }
  return schedule;
}

// Bounds first: no product below overflows.
void check_shape(const Shape& s) {
  if (s.num_ranks < 1 || s.stages_per_rank < 1 || s.num_micro_batches < 1) {
    throw ConfigError(fmt::format(
        "a pipeline of {} ranks, {} stages a rank and {} micro-batches: each must be at least 1",
        s.num_ranks, s.stages_per_rank, s.num_micro_batches));
  }
  const bool too_many = s.num_ranks > kMaxActions ||
                        s.stages_per_rank > kMaxActions / s.num_ranks ||
                        s.num_micro_batches > kMaxActions / (s.num_ranks * s.stages_per_rank);
  if (too_many) {
    throw ConfigError(fmt::format(
        "a pipeline of {} ranks, {} stages a rank and {} micro-batches has more than {} actions",
        s.num_ranks, s.stages_per_rank, s.num_micro_batches, kMaxActions));
  }
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

Schedule make_schedule(const std::string& name, std::int64_t num_ranks,
                       std::int64_t stages_per_rank, std::int64_t num_micro_batches) {
  const Shape shape{num_ranks, stages_per_rank, num_micro_batches};
  check_shape(shape);
  for (const Entry& entry : kSchedules) {
    if (name != entry.name) continue;
    check_stages_per_rank(entry, stages_per_rank);
    return build(entry, shape);
  }
  if (schedules::is_file_name(name)) return schedules::read_file(name, shape);
  const auto names = schedule_names();
  throw ConfigError(
      fmt::format("there is no schedule '{}'{}; take one of {}, or a .yaml or .csv file", name,
                  config::did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace coeus
