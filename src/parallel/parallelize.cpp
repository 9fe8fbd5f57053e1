#include "parallel/parallelize.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "core/cuda.h"
#include "kernels/fill.h"
#include "parallel/recompute/recompute.h"

namespace coeus::parallel {
namespace {

ModelSpec spec_of(const nn::Model& model) {
  ModelSpec spec;
  spec.layers = model.layer_specs();
  spec.ties = model.ties();
  return spec;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return matches(p, name); });
}

void fill(const Tensor& out, const Segment& segment, std::int64_t first, std::int64_t seed) {
  if (segment.init.kind == InitKind::normal) {
    const RandomKey key = make_random_key(seed, 0, segment.fqn);
    if (out.is_cuda()) {
      kernels::fill_normal_cuda(out.data_ptr<float>(), out.numel(), key, first, segment.init.std,
                                core::native_stream(out));
    } else {
      kernels::fill_normal_cpu(out.data_ptr<float>(), out.numel(), key, first, segment.init.std);
    }
  } else {
    out.fill_(segment.init.kind == InitKind::ones ? 1.0 : 0.0);
  }
}

}  // namespace

ParallelModel::ParallelModel(std::unique_ptr<nn::Model> model, const ApplyOptions& options,
                             comm::Groups& groups)
    : model_(std::move(model)) {
  attach_recompute(options);
  make_units(options, groups);
  attach_units(options);
  slots_.allocate(options.device);
  for (auto& unit : units_) unit->allocate();
}

void ParallelModel::attach_recompute(const ApplyOptions& options) {
  std::vector<std::string> names;
  for (const auto& link : model_->chain()) {
    link.layer->visit(link.name,
                      [&](const std::string& fqn, nn::LayerBase&) { names.push_back(fqn); });
  }
  const auto faults = check_plan(options.plan, names);
  if (!faults.empty()) throw ConfigError(fmt::format("{}", fmt::join(faults, "\n")));
  if (options.execution.recompute == Recompute::none) return;
  std::int64_t index = 0;
  for (const auto& link : model_->chain()) {
    if (!matches_any(options.plan.recomputes, link.name)) continue;
    if (index++ % options.execution.recompute_every == 0) link.layer->attach(make_recompute());
  }
}

void ParallelModel::make_units(const ApplyOptions& options, comm::Groups& groups) {
  const UnitGroups over{.gather = &groups.open("fsdp", "gather"),
                        .reduce = &groups.open("fsdp", "reduce"),
                        .replicate = &groups.open("dp_replicate")};
  const auto by_name = model_->parameters();
  for (auto& spec : plan_units(spec_of(*model_), options.plan)) {
    std::vector<nn::Parameter*> parameters;
    for (const auto& p : spec.parameters) parameters.push_back(by_name.at(p.fqn));
    UnitOptions unit{.device = options.device, .compute = options.compute};
    if (options.parallel.reshard_after_forward == ReshardAfterForward::never)
      unit.residency = Residency::persistent;
    if (options.parallel.accumulate == Accumulate::full) unit.accumulation = Accumulation::full;
    for (const auto& layer : spec.layers)
      unit.gradients_in_forward |= model_->find(layer)->forms_gradients_in_forward();
    units_.push_back(
        std::make_unique<Unit>(std::move(spec), std::move(parameters), unit, over, slots_));
  }
}

void ParallelModel::attach_units(const ApplyOptions& options) {
  UnitCall* previous = nullptr;
  for (const auto& link : model_->chain()) {
    for (auto& unit : units_) {
      const auto& layers = unit->spec().layers;
      if (std::find(layers.begin(), layers.end(), link.name) == layers.end()) continue;
      auto call = std::make_unique<UnitCall>(*unit, *link.layer, options.device);
      call->previous_call = previous;
      if (previous != nullptr) previous->next_call = call.get();
      previous = call.get();
      link.layer->attach(std::move(call));
    }
  }
}

std::vector<FlatShard> ParallelModel::shards() {
  std::vector<FlatShard> all;
  for (auto& unit : units_) {
    for (auto& shard : unit->shards()) all.push_back(std::move(shard));
  }
  return all;
}

std::vector<Segment> ParallelModel::segments() const {
  std::vector<Segment> all;
  for (const auto& unit : units_) {
    for (const auto& p : unit->spec().parameters)
      all.insert(all.end(), p.segments.begin(), p.segments.end());
  }
  return all;
}

void ParallelModel::initialise(std::int64_t seed) {
  at::NoGradGuard no_grad;
  for (const auto& shard : shards()) {
    for (const auto& run : shard.runs) {
      fill(shard.master.narrow(0, run.shard_offset, run.count),
           shard.section->segments[run.segment].segment, run.segment_offset, seed);
    }
  }
  publish();
}

void ParallelModel::publish() {
  at::NoGradGuard no_grad;
  for (const auto& shard : shards()) {
    if (!shard.compute.is_same(shard.master)) shard.compute.copy_(shard.master);
  }
  for (auto& unit : units_) unit->mark_stale();
}

void ParallelModel::begin_micro_batch(bool last) {
  for (auto& unit : units_) unit->begin_micro_batch(last);
}
void ParallelModel::finish() {
  for (auto& unit : units_) unit->finish();
}
void ParallelModel::end_step() {
  for (auto& unit : units_) {
    unit->end_step();
    unit->mark_stale();
  }
}
void ParallelModel::reset() {
  for (auto& unit : units_) unit->reset();
}

std::vector<std::pair<const void*, const void*>> ParallelModel::memory() const {
  auto ranges = slots_.memory();
  for (const auto& unit : units_) {
    for (const auto& range : unit->memory()) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace coeus::parallel
