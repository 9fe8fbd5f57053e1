#include "layout/schedule/file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files.h"
#include "coeus/config/fields.h"
#include "config/value.h"
#include "config/yaml.h"
#include "layout/schedule/actions.h"

namespace coeus::schedules {
namespace {

using Kind = Action::Kind;
using config::Report;

constexpr std::uint64_t kMaxBytes = 64 << 20;
constexpr std::int64_t kMaxNumber = 1'000'000'000;  // of a stage or micro-batch

// One word of the file: an action, or a backward that forms the weight gradients too.
struct Cell {
  Action action;
  bool whole_backward = false;
};
using Rows = std::vector<std::vector<Cell>>;

struct KindWord {
  std::string_view word;
  Kind kind;
};
// PyTorch's letters: I is a backward that forms dX alone, B one that also forms the weight
// gradients, unless the file has a W for them.
constexpr KindWord kWords[] = {{"F", Kind::forward},
                               {"B", Kind::backward},
                               {"I", Kind::backward},
                               {"W", Kind::weight},
                               {"SEND_F", Kind::send_forward},
                               {"RECV_F", Kind::receive_forward},
                               {"SEND_B", Kind::send_backward},
                               {"RECV_B", Kind::receive_backward}};

// "3F12" -> stage 3, F, micro-batch 12. nullopt: not of that form.
std::optional<Cell> parse_cell(std::string_view text) {
  Action action;
  const char* const end = text.data() + text.size();
  const auto stage = std::from_chars(text.data(), end, action.stage);
  const char* const digits =
      std::find_if(stage.ptr, end, [](char c) { return c >= '0' && c <= '9'; });
  const auto micro_batch = std::from_chars(digits, end, action.micro_batch);
  if (stage.ec != std::errc{} || micro_batch.ec != std::errc{} || micro_batch.ptr != end ||
      action.stage < 0 || std::max(action.stage, action.micro_batch) > kMaxNumber) {
    return std::nullopt;
  }
  const std::string_view word(stage.ptr, static_cast<std::size_t>(digits - stage.ptr));
  for (const KindWord& known : kWords) {
    if (word != known.word) continue;
    action.kind = known.kind;
    return Cell{action, word == "B"};
  }
  return std::nullopt;
}

std::string cell_fault(std::string_view text) {
  return fmt::format(
      "'{}' is no action: write stage, then F, B, I or W, then micro-batch, as in 0F1",
      text.substr(0, 60));
}

// Found by config's visitor of lists: a fault then names the place of the word.
void visit(config::Slot& slot, Cell& cell) {
  std::string text;
  const std::size_t before = slot.num_faults();
  config::visit(slot, text);
  if (slot.num_faults() != before) return;
  if (const auto parsed = parse_cell(text)) {
    cell = *parsed;
  } else {
    slot.fault(cell_fault(text));
  }
}

struct YamlFile {
  std::string name;
  std::vector<std::int64_t> rank_of_stage;
  Rows ranks;
  void describe(config::Fields& f) {
    f("name", name, "what reports call it", config::not_empty())(
        "rank_of_stage", rank_of_stage, "the pipeline rank of each stage", config::required())(
        "ranks", ranks, "the actions of each rank, in order", config::required());
  }
};

YamlFile read_yaml(std::string_view text, const std::string& path, Report& report) {
  YamlFile file{.name = path, .rank_of_stage = {}, .ranks = {}};
  config::Value tree = config::parse_yaml(text, path, report);
  if (report.unreadable) return file;
  config::Slot slot(config::Mode::read, tree, "", nullptr, report);
  config::visit(slot, file);
  return file;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\"") - first + 1);
}

// One line a rank; empty cells are pauses and mean nothing.
Rows read_csv(std::string_view text, const std::string& path, Report& report) {
  Rows rows;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rows.emplace_back();
    for (std::size_t at = 0; at <= row.size();) {
      const auto comma = std::min(row.find(',', at), row.size());
      const std::string_view word = trimmed(row.substr(at, comma - at));
      if (const auto cell = parse_cell(word)) {
        rows.back().push_back(*cell);
      } else if (!word.empty()) {
        report.add({path, line, static_cast<int>(at) + 1}, "", cell_fault(word));
      }
      at = comma + 1;
    }
  }
  return rows;
}

// A stage is where its forwards run.
std::vector<std::int64_t> ranks_by_forwards(const Rows& rows, std::int64_t num_stages) {
  std::vector<std::int64_t> rank_of_stage(static_cast<std::size_t>(num_stages), -1);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (const Cell& cell : rows[rank]) {
      if (cell.action.kind != Kind::forward || cell.action.stage >= num_stages) continue;
      std::int64_t& owner = rank_of_stage[static_cast<std::size_t>(cell.action.stage)];
      if (owner == -1) owner = static_cast<std::int64_t>(rank);
    }
  }
  return rank_of_stage;
}

// The numbers must be this run's before anything is indexed by them.
void check_numbers(const Schedule& s, const Rows& rows, Report& report) {
  const auto fault = [&](const std::string& message) { report.add({}, "", message); };
  if (static_cast<std::int64_t>(rows.size()) != s.num_ranks) {
    fault(fmt::format("has lists for {} ranks, but pp is {}", rows.size(), s.num_ranks));
  }
  if (static_cast<std::int64_t>(s.rank_of_stage.size()) != s.num_stages) {
    fault(fmt::format("has {} stages, but pp {} · pp_stages_per_rank {} is {}",
                      s.rank_of_stage.size(), s.num_ranks, s.num_stages / s.num_ranks,
                      s.num_stages));
  }
  std::int64_t stages = 0, micro_batches = 0;
  for (const auto& row : rows) {
    for (const Cell& cell : row) {
      stages = std::max(stages, cell.action.stage + 1);
      micro_batches = std::max(micro_batches, cell.action.micro_batch + 1);
    }
  }
  if (stages > s.num_stages) {
    fault(fmt::format("names stage {}, but pp {} · pp_stages_per_rank {} makes {}", stages - 1,
                      s.num_ranks, s.num_stages / s.num_ranks, s.num_stages));
  }
  if (micro_batches != s.num_micro_batches) {
    fault(fmt::format("is made for {} micro-batches, but a step of this run has {}", micro_batches,
                      s.num_micro_batches));
  }
}

// The lists as written, transfers and all, but that a whole backward becomes two actions.
void fill_lists(const Rows& rows, Schedule& schedule) {
  ActionMap<char> has_weight(schedule, 0);
  for (const auto& row : rows) {
    for (const Cell& cell : row) {
      if (cell.action.kind == Kind::weight) has_weight[cell.action] = 1;
    }
  }
  for (const auto& row : rows) {
    auto& list = schedule.ranks.emplace_back();
    for (const Cell& cell : row) {
      Action action = cell.action;
      if (!is_compute(action.kind)) {
        const auto other = neighbour_stage(schedule, action);
        if (other) action.peer = rank_of(schedule, *other);
      }
      list.push_back(action);
      action.kind = Kind::weight;
      if (cell.whole_backward && !has_weight[action]) list.push_back(action);
    }
  }
}

bool has_transfers(const Schedule& schedule) {
  for (const auto& list : schedule.ranks) {
    for (const Action& action : list) {
      if (!is_compute(action.kind)) return true;
    }
  }
  return false;
}

void throw_faults(const Report& report) {
  if (report.faults.empty()) return;
  std::vector<std::string> lines;
  for (const auto& fault : report.faults) lines.push_back(fault.str());
  throw ConfigError(fmt::format("{}", fmt::join(lines, "\n")));
}

// Transfers in the file are proved and then left out: the executor places its own.
void prove(Schedule& schedule, const std::string& path) {
  if (has_transfers(schedule)) {
    if (const auto fault = check_transfers(schedule)) throw ConfigError(path + ": " + *fault);
    for (auto& list : schedule.ranks) {
      std::erase_if(list, [](const Action& a) { return !is_compute(a.kind); });
    }
  }
  if (const auto fault = check_schedule(schedule)) throw ConfigError(path + ": " + *fault);
}

}  // namespace

bool is_file_name(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".csv");
}

Schedule read_file(const std::string& path, const Shape& shape) {
  std::string text;
  try {
    text = files::read_text(path, kMaxBytes);
  } catch (const FileError& e) {
    throw ConfigError(e.what());
  }
  Schedule schedule{.name = path,
                    .num_ranks = shape.num_ranks,
                    .num_stages = shape.num_ranks * shape.stages_per_rank,
                    .num_micro_batches = shape.num_micro_batches,
                    .rank_of_stage = {},
                    .ranks = {}};
  Report report{.file = path};
  Rows rows;
  if (path.ends_with(".csv")) {
    rows = read_csv(text, path, report);
    schedule.rank_of_stage = ranks_by_forwards(rows, schedule.num_stages);
  } else {
    YamlFile file = read_yaml(text, path, report);
    schedule.name = file.name;
    schedule.rank_of_stage = std::move(file.rank_of_stage);
    rows = std::move(file.ranks);
  }
  throw_faults(report);
  check_numbers(schedule, rows, report);
  throw_faults(report);
  fill_lists(rows, schedule);
  prove(schedule, path);
  return schedule;
}

}  // namespace coeus::schedules
