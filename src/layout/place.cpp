#include "layout/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "layout/placement.h"

namespace coeus {
namespace {

constexpr std::string_view kExperts = "experts";

bool cuts_over_tp(StyleKind kind) {
  return kind == StyleKind::column_parallel || kind == StyleKind::row_parallel ||
         kind == StyleKind::head_parallel || kind == StyleKind::vocab_parallel;
}

// The rules that cover a parameter: those that match a layer it lies in.
std::vector<const ParallelPlan::StyleRule*> rules_over(const ParallelPlan& plan,
                                                       const std::string& fqn) {
  std::vector<const ParallelPlan::StyleRule*> found;
  for (const auto& rule : plan.styles) {
    for (auto dot = fqn.find('.'); dot != std::string::npos; dot = fqn.find('.', dot + 1)) {
      if (!matches(rule.pattern, std::string_view(fqn).substr(0, dot))) continue;
      found.push_back(&rule);
      break;
    }
  }
  return found;
}

std::optional<StyleKind> tp_style(const ParallelPlan& plan, const std::string& fqn) {
  for (const auto* rule : rules_over(plan, fqn)) {
    if (cuts_over_tp(rule->style.kind)) return rule->style.kind;
  }
  return std::nullopt;
}

Part cut(const Segment& segment, std::int64_t dim, const PlaceOptions& o) {
  const ShardRange r =
      shard_range(segment.shape.at(static_cast<std::size_t>(dim)), o.tp_degree, o.tp);
  return {.dim = dim, .begin = r.begin, .end = r.begin + r.size};
}

Part copied(const PlaceOptions& o, bool summed) {
  return {.copies = o.tp_degree, .copy = o.tp, .summed = summed};
}

// Whole heads; where there are fewer than ranks, neighbours hold copies of one.
Part cut_heads(const Segment& segment, std::int64_t dim, std::int64_t heads,
               const PlaceOptions& o) {
  if (heads >= o.tp_degree) return cut(segment, dim, o);
  const std::int64_t copies = o.tp_degree / heads;
  const std::int64_t size = segment.shape.at(static_cast<std::size_t>(dim)) / heads;
  const std::int64_t head = o.tp / copies;
  return {.dim = dim,
          .begin = head * size,
          .end = (head + 1) * size,
          .copies = copies,
          .copy = o.tp % copies,
          .summed = true};
}

Part part_of(const Segment& segment, std::optional<StyleKind> style, const PlaceOptions& o) {
  if (!style) return copied(o, o.sequence_parallel);
  switch (*style) {
    case StyleKind::column_parallel:
    case StyleKind::vocab_parallel:
      return cut(segment, 0, o);
    case StyleKind::row_parallel:
      return cut(segment, 1, o);
    case StyleKind::head_parallel:
      if (segment.heads.rows > 0) return cut_heads(segment, 0, segment.heads.rows, o);
      if (segment.heads.columns > 0) return cut_heads(segment, 1, segment.heads.columns, o);
      return copied(o, true);  // each rank's heads form a term of its gradient
    default:
      break;
  }
  throw ConfigError(fmt::format("plan: {} has a style that cuts nothing", segment.fqn));
}

std::int64_t num_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

void place_over_tp(ParameterSpec& p, const ParallelPlan& plan, const PlaceOptions& options) {
  if (options.tp_degree == 1) return;
  const auto style = tp_style(plan, p.fqn);
  p.parts.clear();
  for (const auto& segment : p.segments) p.parts.push_back(part_of(segment, style, options));
  PlaceOptions first = options;
  first.tp = 0;  // its pieces are the largest
  ParameterSpec largest = p;
  for (std::size_t i = 0; i < p.segments.size(); ++i)
    largest.parts[i] = part_of(p.segments[i], style, first);
  p.reserved = num_elements(largest.local_shape());
}

std::int64_t expert_index(const std::string& segment_fqn, const std::string& layer) {
  const char* begin = segment_fqn.data() + layer.size() + 1;
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(begin, segment_fqn.data() + segment_fqn.size(), index);
  if (!segment_fqn.starts_with(layer + ".") || error != std::errc() || *end != '.')
    throw ConfigError(
        fmt::format("plan: {} lies in {} and names no expert (….3.…)", segment_fqn, layer));
  return index;
}

std::int64_t num_experts(const ParameterSpec& p, const std::string& layer) {
  std::int64_t n = 0;
  for (const auto& segment : p.segments) n = std::max(n, expert_index(segment.fqn, layer) + 1);
  return n;
}

// Keeps the experts of this rank; tp ranks are ep or efsdp ranks to them.
void place_experts(ParameterSpec& p, const std::string& layer, const PlaceOptions& o) {
  const ShardRange mine = shard_range(num_experts(p, layer), o.ep_degree, o.ep);
  std::erase_if(p.segments, [&](const Segment& segment) {
    const std::int64_t index = expert_index(segment.fqn, layer);
    return index < mine.begin || index >= mine.begin + mine.size;
  });
}

// Cut parameters first, then those whose last rows are summed copies, then the summed ones: each
// kind of sum is one range of the unit.
int order(const ParameterSpec& p) {
  if (p.parts.empty()) return 0;
  if (p.parts.back().summed && p.parts.front().summed && p.parts.front().dim < 0) return 2;
  return p.parts.back().summed ? 1 : 0;
}

}  // namespace

std::string experts_layer(const ParallelPlan& plan, const std::string& fqn) {
  for (const auto* rule : rules_over(plan, fqn)) {
    if (rule->style.kind != StyleKind::expert_parallel) continue;
    for (auto dot = fqn.find('.'); dot != std::string::npos; dot = fqn.find('.', dot + 1)) {
      if (!matches(rule->pattern, std::string_view(fqn).substr(0, dot))) continue;
      const std::string layer = fmt::format("{}.{}", fqn.substr(0, dot), kExperts);
      if (fqn.starts_with(layer + ".")) return layer;
    }
  }
  return "";
}

ModelSpec place(const ModelSpec& model, const ParallelPlan& plan, const PlaceOptions& options) {
  ModelSpec placed = model;
  for (auto& layer : placed.layers) {
    for (auto& p : layer.parameters) {
      const std::string experts = experts_layer(plan, p.fqn);
      if (experts.empty()) {
        place_over_tp(p, plan, options);
      } else {
        place_experts(p, experts, options);
      }
    }
    std::stable_sort(layer.parameters.begin(), layer.parameters.end(),
                     [](const auto& a, const auto& b) { return order(a) < order(b); });
  }
  return placed;
}

std::vector<std::string> check_place(const ModelSpec& model, const ParallelPlan& plan,
                                     const PlaceOptions& o) {
  std::vector<std::string> faults;
  if (o.tp_degree > 1 && std::none_of(plan.styles.begin(), plan.styles.end(), [](const auto& rule) {
        return cuts_over_tp(rule.style.kind);
      }))
    faults.push_back("plan: tensor parallelism needs a style that cuts some layer");
  const auto check_segment = [&](const Segment& s, StyleKind kind) {
    const auto too_few = [&](const char* what, std::int64_t n) {
      const std::int64_t size = (n + o.tp_degree - 1) / o.tp_degree;
      if (size * (o.tp_degree - 1) >= n)
        faults.push_back(fmt::format("{}: {} {} over tp {} leave a rank without any", s.fqn, n,
                                     what, o.tp_degree));
    };
    const auto heads_fit = [&](std::int64_t heads) {
      if (heads % o.tp_degree == 0 || (heads < o.tp_degree && o.tp_degree % heads == 0)) return;
      faults.push_back(fmt::format(
          "{}: {} heads and tp {}: tp must divide them, or (keys and values) be a multiple", s.fqn,
          heads, o.tp_degree));
    };
    if (kind == StyleKind::head_parallel) {
      if (s.heads.rows > 0) heads_fit(s.heads.rows);
      if (s.heads.columns > 0 && s.heads.columns % o.tp_degree != 0)
        faults.push_back(
            fmt::format("{}: tp {} does not divide {} heads", s.fqn, o.tp_degree, s.heads.columns));
    } else if (kind == StyleKind::row_parallel) {
      if (s.shape.size() < 2)
        faults.push_back(fmt::format("{}: row_parallel needs a matrix", s.fqn));
      else
        too_few("columns", s.shape[1]);
    } else {
      too_few("rows", s.shape.at(0));
    }
  };
  for (const auto& layer : model.layers) {
    for (const auto& p : layer.parameters) {
      const ParallelPlan::StyleRule* first = nullptr;
      for (const auto* rule : rules_over(plan, p.fqn)) {
        if (!cuts_over_tp(rule->style.kind)) continue;
        if (first != nullptr)
          faults.push_back(fmt::format("plan: {} would be cut over tp twice, by {} and by {}",
                                       p.fqn, first->pattern, rule->pattern));
        first = rule;
      }
      if (first != nullptr && o.tp_degree > 1) {
        for (const auto& s : p.segments) check_segment(s, first->style.kind);
      }
      if (const auto experts = experts_layer(plan, p.fqn); !experts.empty()) {
        const auto n = num_experts(p, experts);
        if (n % o.ep_degree != 0)
          faults.push_back(
              fmt::format("{}: ep {} does not divide {} experts", p.fqn, o.ep_degree, n));
        if (o.tp_degree > 1 && !o.sequence_parallel)
          faults.push_back(fmt::format(
              "{}: experts under tp need sequence_parallel: else each tp rank would send the same "
              "tokens",
              experts));
      }
    }
  }
  return faults;
}

}  // namespace coeus
