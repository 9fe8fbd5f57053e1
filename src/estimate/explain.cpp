#include "estimate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "layout/schedule/schedule.h"

namespace coeus::estimate {
namespace {

// As parallel/parallelize.cpp attaches it: every n-th of the layers that the plan allows.
std::vector<LayerFlops> flops_with_recompute(const JobConfig& config, const ModelSpec& spec,
                                             const ParallelPlan& plan) {
  auto flops = layer_flops(spec, config.data.sequence_length);
  if (config.execution.recompute != Recompute::full) return flops;
  std::int64_t index = 0;
  for (std::size_t i = 0; i < flops.size(); ++i) {
    const bool allowed =
        std::any_of(plan.recomputes.begin(), plan.recomputes.end(),
                    [&](const auto& pattern) { return matches(pattern, spec.layers[i].name); });
    if (allowed && index++ % config.execution.recompute_every == 0) {
      flops[i].backward += flops[i].forward;
    }
  }
  return flops;
}

StageExplanation explain_stage(const ModelSpec& spec, const std::vector<LayerFlops>& flops,
                               std::int64_t number, const StageRange& range) {
  StageExplanation stage{.stage = number,
                         .layers = range,
                         .first_layer = spec.layers[range.begin].name,
                         .last_layer = spec.layers[range.end - 1].name,
                         .num_parameters = 0,
                         .flops_per_token = {}};
  for (std::size_t i = range.begin; i < range.end; ++i) {
    for (const auto& p : spec.layers[i].parameters) stage.num_parameters += p.num_elements();
    stage.flops_per_token.forward += flops[i].forward;
    stage.flops_per_token.backward += flops[i].backward;
    stage.flops_per_token.weight += flops[i].weight;
  }
  return stage;
}

// A unit is where a layer of it is; a tied weight may be on two ranks.
std::vector<UnitSpec> units_of(const RankExplanation& rank, const ModelSpec& spec,
                               const std::vector<UnitSpec>& units) {
  const auto holds = [&](const std::string& layer) {
    for (const auto& stage : rank.stages) {
      for (std::size_t i = stage.layers.begin; i < stage.layers.end; ++i) {
        const std::string& name = spec.layers[i].name;
        if (layer == name || layer.starts_with(name + ".")) return true;
      }
    }
    return false;
  };
  std::vector<UnitSpec> held;
  std::copy_if(units.begin(), units.end(), std::back_inserter(held), [&](const UnitSpec& unit) {
    return std::any_of(unit.layers.begin(), unit.layers.end(), holds);
  });
  return held;
}

}  // namespace

MemoryOptions memory_options(const JobConfig& config) {
  const bool pipeline = config.parallel.pp > 1;
  MemoryOptions options{.compute_bytes = config.precision.compute == FloatType::fp32 ? 4 : 2};
  const auto reshard = config.parallel.reshard_after_forward;
  if (reshard == ReshardAfterForward::never ||
      (reshard == ReshardAfterForward::automatic && pipeline)) {
    options.residency = Residency::persistent;
  }
  const auto accumulate = config.parallel.accumulate;
  if (accumulate == Accumulate::full || (accumulate == Accumulate::automatic && pipeline)) {
    options.accumulation = Accumulation::full;
  }
  options.sequence_parallel = config.parallel.sequence_parallel;
  return options;
}

namespace {

void fill_ranks(const JobConfig& config, const ModelSpec& spec, const ParallelPlan& plan,
                const Mesh& mesh, Explanation& e) {
  const auto units = plan_units(spec, plan);
  for (std::size_t r = 0; r < e.pipeline_ranks.size(); ++r) {
    RankExplanation& rank = e.pipeline_ranks[r];
    const auto held = units_of(rank, spec, units);
    for (const auto& unit : held) {
      for (const auto& p : unit.parameters) rank.num_parameters += p.num_elements();
    }
    MemoryOptions options = memory_options(config);
    for (const auto& stage : rank.stages) options.stages.push_back(stage.layers);
    rank.memory = predict_memory(spec, plan, mesh, options);
    const SimulatedRank& simulated = e.simulation.ranks[r];
    rank.bubble = e.simulation.total > 0 ? simulated.bubble / e.simulation.total : 0;
    rank.peak_forward_to_backward = simulated.peak_forward_to_backward;
    rank.peak_forward_to_weight = simulated.peak_forward_to_weight;
  }
}

std::int64_t count_micro_batches(const JobConfig& config, const Mesh& mesh) {
  const auto& t = config.training;
  const std::int64_t portion = mesh.degree("batch") * t.micro_batch_size;
  if (t.global_batch_size % portion != 0) {
    throw ConfigError(fmt::format(
        "training.global_batch_size: {} is not a multiple of dp_replicate · dp_shard {} · "
        "micro_batch_size {}",
        t.global_batch_size, mesh.degree("batch"), t.micro_batch_size));
  }
  return t.global_batch_size / portion;
}

}  // namespace

std::int64_t smallest_world(const ParallelConfig& p) {
  const std::int64_t least_for_ep = p.ep / std::gcd(p.ep, p.cp * p.tp);
  return p.pp * p.dp_replicate * (p.dp_shard >= 1 ? p.dp_shard : least_for_ep) * p.cp * p.tp;
}

Explanation explain(const JobConfig& config, std::int64_t world_size) {
  const Mesh mesh(world_size, config.parallel.mesh_sizes());
  const ModelSpec spec = config.model->spec();
  const ParallelPlan plan = config.model->plan();
  const std::int64_t num_micro_batches = count_micro_batches(config, mesh);
  const bool pipelined = mesh.degree("pp") > 1;
  const Schedule schedule =
      make_schedule(pipelined ? config.parallel.pp_schedule : "1f1b", mesh.degree("pp"),
                    pipelined ? config.parallel.pp_stages_per_rank : 1, num_micro_batches);
  const auto ranges = split_stages(spec, plan, schedule.num_stages, config.data.sequence_length);
  const auto flops = flops_with_recompute(config, spec, plan);

  Explanation e{
      .model = config.model->name(),
      .layout = mesh.describe(),
      .num_ranks = mesh.size(),
      .num_parameters = spec.num_parameters(),
      .num_micro_batches = num_micro_batches,
      .micro_batch_tokens = config.training.micro_batch_size * config.data.sequence_length,
      .delays_weights = delays_weights(schedule),
      .simulation = {},
      .pipeline_ranks = std::vector<RankExplanation>(schedule.ranks.size()),
      .notes = {}};
  StageCosts costs;
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const auto rank = static_cast<std::size_t>(schedule.rank_of_stage[s]);
    auto stage = explain_stage(spec, flops, static_cast<std::int64_t>(s), ranges[s]);
    costs.push_back({.forward = stage.flops_per_token.forward,
                     .backward = stage.flops_per_token.backward,
                     .weight = stage.flops_per_token.weight});
    e.pipeline_ranks[rank].stages.push_back(std::move(stage));
  }
  e.simulation = simulate(schedule, costs);
  fill_ranks(config, spec, plan, mesh, e);
  if (spec.vocab_size == 0) {
    e.notes.emplace_back(
        "the tokenizer decides on the vocabulary: embedding and head are left out");
  }
  if (num_micro_batches < schedule.num_stages) {
    e.notes.push_back(fmt::format("{} micro-batches are fewer than {} stages: ranks idle",
                                  num_micro_batches, schedule.num_stages));
  }
  return e;
}

}  // namespace coeus::estimate
