#include "layout/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace coeus {
namespace {

// Elements that a layer multiplies each token with: of experts, those that it is sent to.
double matrix_elements(const ModelSpec& model, const LayerSpec& layer) {
  std::int64_t elements = 0;
  const bool first = &layer == &model.layers.front();
  for (const auto& parameter : layer.parameters) {
    for (const auto& segment : parameter.segments) {
      const bool table = first && segment.shape.size() == 2 && segment.shape[0] == model.vocab_size;
      if (segment.shape.size() < 2 || table) continue;
      elements += model.is_routed(segment.fqn)
                      ? segment.num_elements() * model.top_k / model.num_experts
                      : segment.num_elements();
    }
  }
  // A tied matrix is listed once, but each layer that uses it multiplies with it.
  for (const auto& tie : model.ties) {
    if (!tie.alias.starts_with(layer.name + ".")) continue;
    for (const auto& owner : model.layers) {
      for (const auto& parameter : owner.parameters) {
        if (parameter.fqn == tie.target) elements += parameter.num_elements();
      }
    }
  }
  return static_cast<double>(elements);
}

bool has_attention(const LayerSpec& layer) {
  for (const auto& parameter : layer.parameters) {
    for (const auto& segment : parameter.segments) {
      if (segment.heads != Heads{}) return true;
    }
  }
  return false;
}

// Layer numbers at which a stage may begin, 0 first, and the end of the chain last.
std::vector<std::size_t> borders(const ModelSpec& model, const ParallelPlan& plan) {
  const std::size_t n = model.layers.size();
  std::vector<std::size_t> cuts;
  std::size_t after_last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto& name = model.layers[i].name;
    const bool named = std::any_of(plan.stages.begin(), plan.stages.end(),
                                   [&](const auto& pattern) { return matches(pattern, name); });
    const bool within_last_unit = i + 1 == n && n >= 3;
    if (named || (plan.stages.empty() && !within_last_unit)) cuts.push_back(i);
    if (named) after_last = i + 1;
  }
  cuts.push_back(0);
  if (after_last > 0) cuts.push_back(after_last);
  cuts.push_back(n);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// The cheapest way to cut the first j pieces into k runs, for every k and j; `join` adds a run's
// cost to that of the runs before it, `of_run` is the cost of pieces [i, j).
template <class OfRun, class Join>
std::vector<std::size_t> best_cuts(std::size_t num_pieces, std::size_t num_runs, OfRun of_run,
                                   Join join) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(num_runs + 1, std::vector<double>(num_pieces + 1, kNever));
  std::vector<std::vector<std::size_t>> from(num_runs + 1,
                                             std::vector<std::size_t>(num_pieces + 1, 0));
  best[0][0] = 0;
  for (std::size_t k = 1; k <= num_runs; ++k) {
    for (std::size_t j = k; j <= num_pieces; ++j) {
      for (std::size_t i = k - 1; i < j; ++i) {
        const double cost = join(best[k - 1][i], of_run(i, j));
        if (cost < best[k][j]) {
          best[k][j] = cost;
          from[k][j] = i;
        }
      }
    }
  }
  std::vector<std::size_t> cuts(num_runs + 1, num_pieces);
  for (std::size_t k = num_runs; k > 0; --k) cuts[k - 1] = from[k][cuts[k]];
  return cuts;
}

// Where each of `num_runs` runs of pieces begins, and the end: least maximum first, then least sum
// of squares without exceeding it.
std::vector<std::size_t> balance(const std::vector<double>& pieces, std::size_t num_runs) {
  std::vector<double> sums(pieces.size() + 1, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) sums[i + 1] = sums[i] + pieces[i];
  const auto run = [&](std::size_t i, std::size_t j) { return sums[j] - sums[i]; };
  const auto cuts = best_cuts(pieces.size(), num_runs, run,
                              [](double before, double last) { return std::max(before, last); });
  double limit = 0;
  for (std::size_t k = 0; k < num_runs; ++k) limit = std::max(limit, run(cuts[k], cuts[k + 1]));
  const auto squared = [&](std::size_t i, std::size_t j) {
    const double cost = run(i, j);
    return cost > limit ? std::numeric_limits<double>::infinity() : cost * cost;
  };
  return best_cuts(pieces.size(), num_runs, squared,
                   [](double before, double last) { return before + last; });
}

}  // namespace

std::vector<LayerFlops> layer_flops(const ModelSpec& model, std::int64_t sequence_length) {
  const double attention = 4.0 * static_cast<double>(model.num_heads * model.head_dim) *
                           static_cast<double>(sequence_length);
  std::vector<LayerFlops> flops;
  for (const auto& layer : model.layers) {
    const double matrices = 2 * matrix_elements(model, layer);
    LayerFlops f{matrices, matrices, matrices};
    if (&layer == &model.layers.back()) f = {3 * matrices, 0, 0};
    if (has_attention(layer)) {
      f.forward += attention;
      f.backward += 2 * attention;
    }
    flops.push_back(f);
  }
  return flops;
}

std::vector<StageRange> split_stages(const ModelSpec& model, const ParallelPlan& plan,
                                     std::int64_t num_stages, std::int64_t sequence_length) {
  COEUS_ASSERT(!model.layers.empty() && num_stages >= 1, "{} layers in {} stages",
               model.layers.size(), num_stages);
  const auto border = borders(model, plan);
  const std::size_t num_pieces = border.size() - 1;
  if (num_stages > static_cast<std::int64_t>(num_pieces)) {
    throw ConfigError(
        fmt::format("{} pipeline stages, but the model's {} layers can be cut into {} at most",
                    num_stages, model.layers.size(), num_pieces));
  }
  const auto flops = layer_flops(model, sequence_length);
  std::vector<double> pieces(num_pieces, 0);
  for (std::size_t piece = 0; piece < num_pieces; ++piece) {
    for (std::size_t i = border[piece]; i < border[piece + 1]; ++i)
      pieces[piece] += flops[i].total();
  }
  const auto cuts = balance(pieces, static_cast<std::size_t>(num_stages));
  std::vector<StageRange> stages;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    stages.push_back({border[cuts[k]], border[cuts[k + 1]]});
  }
  return stages;
}

}  // namespace coeus
