#include "layout/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "layout/place.h"

namespace coeus {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replace}));
    }
  }
  return row[b.size()];
}

// blocks.12.norm1 -> blocks.*.norm1: what one would have written to mean all of them.
std::string with_stars_for_numbers(const std::string& name) {
  std::string out;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return c >= '0' && c <= '9';
    });
    if (begin > 0) out += '.';
    out += number ? "*" : part;
    begin = end + 1;
  }
  return out;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

// The chain layer that `fqn` lies in; the longest name wins.
std::string layer_of(const ModelSpec& model, const std::string& fqn) {
  std::string found;
  for (const auto& layer : model.layers) {
    if (fqn.starts_with(layer.name + ".") && layer.name.size() > found.size()) found = layer.name;
  }
  if (found.empty()) throw ConfigError(fmt::format("tie: {} lies in no layer of the model", fqn));
  return found;
}

// For each chain layer, the index of the layer whose unit it joins: its own, but norm and head
// share one.
std::vector<std::size_t> unit_leaders(const ModelSpec& model, const ParallelPlan& plan) {
  const std::size_t n = model.layers.size();
  std::vector<std::size_t> leaders(n);
  for (std::size_t i = 0; i < n; ++i) leaders[i] = i;
  if (n >= 3 && !matches_any(plan.units, model.layers[n - 1].name) &&
      !matches_any(plan.units, model.layers[n - 2].name)) {
    leaders[n - 1] = n - 2;
  }
  return leaders;
}

// Tied parameter -> the layers that use it, in chain order.
std::map<std::string, std::vector<std::string>> tied_parameters(const ModelSpec& model) {
  std::map<std::string, std::set<std::string>> users;
  for (const auto& tie : model.ties) {
    users[tie.target].insert({layer_of(model, tie.target), layer_of(model, tie.alias)});
  }
  std::map<std::string, std::vector<std::string>> in_order;
  for (const auto& [target, layers] : users) {
    for (const auto& layer : model.layers) {
      if (layers.contains(layer.name)) in_order[target].push_back(layer.name);
    }
  }
  return in_order;
}

}  // namespace

ParallelPlan& ParallelPlan::style(std::string pattern, Style s) {
  styles.push_back({std::move(pattern), s});
  return *this;
}
ParallelPlan& ParallelPlan::unit(std::string pattern) {
  units.push_back(std::move(pattern));
  return *this;
}
ParallelPlan& ParallelPlan::recompute(std::string pattern) {
  recomputes.push_back(std::move(pattern));
  return *this;
}
ParallelPlan& ParallelPlan::stage(std::string pattern) {
  stages.push_back(std::move(pattern));
  return *this;
}

bool matches(std::string_view pattern, std::string_view name) {
  // reached[j]: the pattern so far matches the first j characters of name.
  std::vector<char> reached(name.size() + 1, 0);
  reached[0] = 1;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool star = pattern[i] == '*';
    const bool across = star && i + 1 < pattern.size() && pattern[i + 1] == '*';
    if (across) ++i;
    if (star) {
      for (std::size_t j = 0; j < name.size(); ++j) {
        if (reached[j] && (across || name[j] != '.')) reached[j + 1] = 1;
      }
      continue;
    }
    for (std::size_t j = name.size(); j > 0; --j)
      reached[j] = reached[j - 1] && name[j - 1] == pattern[i];
    reached[0] = 0;
  }
  return reached[name.size()] != 0;
}

std::vector<std::string> near_misses(const std::string& pattern,
                                     const std::vector<std::string>& names) {
  std::set<std::string> candidates;
  for (const auto& name : names) candidates.insert(with_stars_for_numbers(name));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  const std::size_t limit = std::max<std::size_t>(2, pattern.size() / 3);
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(pattern, candidate);
    if (distance <= limit) ranked.emplace_back(distance, candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min<std::size_t>(ranked.size(), 3); ++i) {
    nearest.push_back(ranked[i].second);
  }
  return nearest;
}

std::vector<std::string> check_plan(const ParallelPlan& plan,
                                    const std::vector<std::string>& layer_names) {
  std::vector<std::string> faults;
  const auto check = [&](const char* kind, const std::string& pattern) {
    for (const auto& name : layer_names) {
      if (matches(pattern, name)) return;
    }
    const auto nearest = near_misses(pattern, layer_names);
    faults.push_back(fmt::format(
        "plan: {} {} matches no layer{}", kind, pattern,
        nearest.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(nearest, " or "))));
  };
  for (const auto& rule : plan.styles) check("style", rule.pattern);
  for (const auto& pattern : plan.units) check("unit", pattern);
  for (const auto& pattern : plan.recomputes) check("recompute", pattern);
  for (const auto& pattern : plan.stages) check("stage", pattern);
  return faults;
}

std::vector<UnitSpec> plan_units(const ModelSpec& model, const ParallelPlan& plan) {
  const auto leaders = unit_leaders(model, plan);
  auto tied = tied_parameters(model);
  std::vector<UnitSpec> units;
  std::map<std::size_t, std::size_t> unit_of_leader;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& layer = model.layers[i];
    for (const auto& parameter : layer.parameters) {
      if (auto users = tied.extract(parameter.fqn)) {
        units.push_back({parameter.fqn, users.mapped(), {parameter}});
        continue;
      }
      if (const auto experts = experts_layer(plan, parameter.fqn); !experts.empty()) {
        auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const UnitSpec& u) { return u.name == experts; });
        if (unit == units.end()) unit = units.insert(unit, {experts, {experts}, {}, true});
        unit->parameters.push_back(parameter);
        continue;
      }
      const auto [place, is_new] = unit_of_leader.try_emplace(leaders[i], units.size());
      if (is_new) units.emplace_back();
      auto& unit = units[place->second];
      unit.parameters.push_back(parameter);
      if (unit.layers.empty() || unit.layers.back() != layer.name) {
        unit.layers.push_back(layer.name);
        unit.name = fmt::format("{}", fmt::join(unit.layers, "+"));
      }
    }
  }
  if (!tied.empty()) {
    throw ConfigError(fmt::format("tie: the model has no parameter {}", tied.begin()->first));
  }
  return units;
}

}  // namespace coeus
