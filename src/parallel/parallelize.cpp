#include "parallel/parallelize.h"

#include <coeus/nn/linear.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "core/cuda.h"
#include "kernels/fill.h"
#include "layout/place.h"
#include "parallel/recompute/recompute.h"
#include "parallel/styles.h"

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

bool lies_in(const std::string& layer, const std::string& outer) {
  return layer == outer || layer.starts_with(outer + ".");
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

std::string joined(const std::vector<std::string>& faults) {
  return fmt::format("{}", fmt::join(faults, "\n"));
}

}  // namespace

ParallelModel::ParallelModel(std::unique_ptr<nn::Model> model, const ApplyOptions& options,
                             comm::Groups& groups)
    : model_(std::move(model)), stages_(options.stages) {
  place(options, groups);
  attach_recompute(options);
  make_units(options, groups);
  attach_units(options);
  if (groups.mesh().degree("pp") > 1) defer_weight_gradients();
  slots_.allocate(options.device);
  for (auto& unit : units_) unit->allocate();
  for (auto& [name, buffer] : model_->buffers()) buffer->allocate(options.device);
}

// Which parts of which parameters are here, and what their layers need around them.
void ParallelModel::place(const ApplyOptions& options, comm::Groups& groups) {
  std::vector<std::string> names;
  for (const auto& link : model_->chain()) {
    link.layer->visit(link.name,
                      [&](const std::string& fqn, nn::LayerBase&) { names.push_back(fqn); });
  }
  if (const auto misses = check_plan(options.plan, names); !misses.empty())
    throw ConfigError(joined(misses));
  whole_ = spec_of(*model_);
  if (stages_.ranges.empty()) stages_ = {{{0, whole_.layers.size()}}, {0}};
  for (std::size_t stage = 0; stage < stages_.ranges.size(); ++stage) {
    if (stages_.rank_of_stage[stage] != groups.coordinate("pp")) continue;
    for (auto i = stages_.ranges[stage].begin; i < stages_.ranges[stage].end; ++i)
      local_layers_.push_back(whole_.layers[i].name);
  }
  const PlaceOptions where{.tp_degree = groups.mesh().degree("tp"),
                           .tp = groups.coordinate("tp"),
                           .ep_degree = groups.mesh().degree("ep"),
                           .ep = groups.coordinate("ep"),
                           .sequence_parallel = options.parallel.sequence_parallel};
  auto faults = check_place(whole_, options.plan, where);
  const auto has_style = [&](StyleKind kind) {
    return std::any_of(options.plan.styles.begin(), options.plan.styles.end(),
                       [&](const auto& rule) { return rule.style.kind == kind; });
  };
  if (groups.mesh().degree("cp") > 1 && !has_style(StyleKind::context_parallel))
    faults.push_back("plan: parallel.cp needs a context_parallel style for each attention core");
  if (!faults.empty()) throw ConfigError(joined(faults));
  placed_ = coeus::place(whole_, options.plan, where);
  const auto by_name = model_->parameters();
  for (const auto& layer : placed_.layers) {
    for (const auto& p : layer.parameters) {
      nn::Parameter& parameter = *by_name.at(p.fqn);
      if (const auto shape = p.local_shape(); shape != parameter.shape) parameter.cut(shape);
    }
  }
  apply_styles(*model_,
               {.plan = options.plan,
                .sequence_parallel = options.parallel.sequence_parallel,
                .cp_style = options.parallel.cp_style,
                .placed = placed_},
               groups);
  bool counts = false;
  for (const auto& link : model_->chain()) {
    link.layer->visit(link.name, [&](const std::string&, nn::LayerBase& layer) {
      counts |= layer.sums_counts();
    });
  }
  if (counts) stage_group_ = &groups.open("stage");
}

bool ParallelModel::is_here(const std::string& layer) const {
  return std::any_of(local_layers_.begin(), local_layers_.end(),
                     [&](const std::string& l) { return lies_in(layer, l); });
}

void ParallelModel::attach_recompute(const ApplyOptions& options) {
  if (options.execution.recompute == Recompute::none) return;
  std::int64_t index = 0;
  for (const auto& link : model_->chain()) {
    if (!matches_any(options.plan.recomputes, link.name)) continue;
    if (index++ % options.execution.recompute_every != 0) continue;
    if (options.execution.recompute == Recompute::full) {
      link.layer->attach(make_recompute());
    } else {
      recompute_cheap_inputs(*link.layer);
    }
  }
}

void ParallelModel::make_units(const ApplyOptions& options, comm::Groups& groups) {
  UnitGroups dense{.gather = &groups.open("fsdp", "gather"),
                   .reduce = &groups.open("fsdp", "reduce"),
                   .replicate = &groups.open("dp_replicate")};
  const auto specs = plan_units(placed_, options.plan);
  UnitGroups experts{.replicate = dense.replicate};
  if (std::any_of(specs.begin(), specs.end(), [](const UnitSpec& s) { return s.experts; })) {
    experts.gather = &groups.open("efsdp", "gather");
    experts.reduce = &groups.open("efsdp", "reduce");
  }
  // Every rank opens the groups of all units, its own or not.
  std::set<std::int64_t> copies;
  for (const auto& spec : specs) {
    for (const auto& section : flat_layout(spec.parameters, 1)) {
      for (const auto& range : section.summed_ranges()) copies.insert(range.copies);
    }
  }
  for (const auto n : copies) dense.copies[n] = &groups.open_block("tp", n);
  const bool pipelined = groups.mesh().degree("pp") > 1;
  const auto& p = options.parallel;
  UnitOptions unit{.device = options.device, .compute = options.compute};
  if (p.reshard_after_forward == ReshardAfterForward::never ||
      (pipelined && p.reshard_after_forward == ReshardAfterForward::automatic))
    unit.residency = Residency::persistent;
  if (p.accumulate == Accumulate::full || (pipelined && p.accumulate == Accumulate::automatic))
    unit.accumulation = Accumulation::full;
  for (const auto& spec : specs) {
    const auto here = std::count_if(spec.layers.begin(), spec.layers.end(),
                                    [&](const std::string& l) { return is_here(l); });
    if (here > 0) make_unit(spec, unit, spec.experts ? experts : dense);
  }
  open_tied_groups(groups);
}

void ParallelModel::make_unit(UnitSpec spec, const UnitOptions& options, const UnitGroups& over) {
  std::erase_if(spec.layers, [&](const std::string& l) { return !is_here(l); });
  const auto by_name = model_->parameters();
  std::vector<nn::Parameter*> parameters;
  for (const auto& p : spec.parameters) parameters.push_back(by_name.at(p.fqn));
  UnitOptions unit = options;
  unit.uses = static_cast<std::int64_t>(spec.layers.size());
  for (const auto& layer : spec.layers)
    unit.gradients_in_forward |= model_->find(layer)->forms_gradients_in_forward();
  units_.push_back(
      std::make_unique<Unit>(std::move(spec), std::move(parameters), unit, over, slots_));
}

// A weight that layers of several pipeline ranks use: each holds a copy, their gradients are added.
void ParallelModel::open_tied_groups(comm::Groups& groups) {
  if (groups.mesh().degree("pp") == 1) return;
  std::map<std::string, std::set<std::int64_t>> holders_of;  // by the tied weight
  for (const auto& tie : whole_.ties) {
    for (std::size_t stage = 0; stage < stages_.ranges.size(); ++stage) {
      for (auto i = stages_.ranges[stage].begin; i < stages_.ranges[stage].end; ++i) {
        const std::string& layer = whole_.layers[i].name;
        if (lies_in(tie.target, layer) || lies_in(tie.alias, layer))
          holders_of[tie.target].insert(stages_.rank_of_stage[stage]);
      }
    }
  }
  for (const auto& [target, holders] : holders_of) {
    if (holders.size() < 2) continue;
    comm::Communicator* group =
        groups.open_subset("pp", {holders.begin(), holders.end()}, "tied " + target);
    if (group == nullptr) continue;
    for (auto& unit : units_) {
      if (unit->name() == target) tied_.push_back({unit.get(), group});
    }
  }
}

void ParallelModel::attach_units(const ApplyOptions& options) {
  UnitCall* previous = nullptr;
  const auto attach = [&](const std::string& name, nn::LayerBase& layer) {
    for (auto& unit : units_) {
      const auto& layers = unit->spec().layers;
      if (std::find(layers.begin(), layers.end(), name) == layers.end()) continue;
      auto call = std::make_unique<UnitCall>(*unit, layer, options.device);
      call->previous_call = previous;
      if (previous != nullptr) previous->next_call = call.get();
      previous = call.get();
      layer.attach(std::move(call));
    }
  };
  for (const auto& link : model_->chain()) link.layer->visit(link.name, attach);
}

// What fills a pipeline's bubbles: backward hands on dX, the weight gradients are formed when the
// schedule says so. Where each micro-batch is reduced at once they are formed at once.
void ParallelModel::defer_weight_gradients() {
  std::map<std::string, Unit*> unit_of;
  for (auto& unit : units_) {
    for (const auto& p : unit->spec().parameters) unit_of[p.fqn] = unit.get();
  }
  for (const auto& name : local_layers_) {
    model_->find(name)->visit(name, [&](const std::string& fqn, nn::LayerBase& layer) {
      auto* linear = dynamic_cast<nn::Linear*>(&layer);
      if (linear == nullptr) return;
      Unit* unit = unit_of.at(fqn + ".weight");
      if (!unit->accumulates_over_step()) return;
      unit->add_use();
      linear->set_gemm(nn::deferred_gemm(linear->gemm(), [this, unit](std::function<void()> form) {
        deferred_.push_back([form = std::move(form), unit] {
          form();
          unit->close_weight();
        });
      }));
    });
  }
}

std::vector<FlatShard> ParallelModel::shards() {
  std::vector<FlatShard> all;
  for (auto& unit : units_) {
    const bool counts = std::none_of(tied_.begin(), tied_.end(), [&](const TiedUnit& t) {
      return t.unit == unit.get() && t.holders->rank() != 0;
    });
    for (auto& shard : unit->shards()) {
      if (!counts) shard.counted.clear();
      all.push_back(std::move(shard));
    }
  }
  return all;
}

std::vector<Segment> ParallelModel::segments() const {
  std::vector<Segment> all;
  for (const auto& layer : whole_.layers) {
    for (const auto& p : layer.parameters)
      all.insert(all.end(), p.segments.begin(), p.segments.end());
  }
  return all;
}

std::vector<Segment> ParallelModel::buffer_segments() const {
  std::vector<Segment> all;
  for (const auto& layer : whole_.layers)
    all.insert(all.end(), layer.buffers.begin(), layer.buffers.end());
  return all;
}

std::vector<ParallelModel::NamedBuffer> ParallelModel::buffers() {
  std::vector<NamedBuffer> here;
  const auto by_name = model_->buffers();
  for (const auto& segment : buffer_segments()) {
    if (is_here(segment.fqn)) here.push_back({segment, *by_name.at(segment.fqn)});
  }
  return here;
}

void ParallelModel::initialise(std::int64_t seed) {
  at::NoGradGuard no_grad;
  for (const auto& shard : shards()) {
    for (const auto& run : shard.runs) {
      fill(shard.master.narrow(0, run.shard_offset, run.count),
           shard.section->segments[run.segment].segment, run.segment_offset, seed);
    }
  }
  for (auto& buffer : buffers()) fill(buffer.values.view(-1), buffer.segment, 0, seed);
  publish();
}

void ParallelModel::publish() {
  at::NoGradGuard no_grad;
  for (const auto& shard : shards()) {
    if (!shard.compute.is_same(shard.master)) shard.compute.copy_(shard.master);
  }
  for (auto& unit : units_) unit->mark_stale();
}

void ParallelModel::begin_step(std::int64_t num_micro_batches) {
  deferred_.clear();
  for (auto& unit : units_) unit->begin_step(num_micro_batches);
}

void ParallelModel::finish() {
  for (auto& unit : units_) unit->finish();
  for (auto& [unit, holders] : tied_) {
    for (auto& shard : unit->shards())
      holders->all_reduce(shard.grad, comm::ReduceOp::sum, {.label = unit->name()}).wait();
  }
  sum_counts();
}

void ParallelModel::visit_here(const std::function<void(nn::LayerBase&)>& f) {
  for (const auto& link : model_->chain()) {
    if (!is_here(link.name)) continue;
    link.layer->visit(link.name, [&](const std::string&, nn::LayerBase& layer) { f(layer); });
  }
}

// All layers' counts in one sum.
void ParallelModel::sum_counts() {
  if (stage_group_ == nullptr || stage_group_->size() == 1) return;
  at::NoGradGuard no_grad;
  std::vector<Tensor> counts;
  visit_here([&](nn::LayerBase& layer) {
    if (!layer.sums_counts()) return;
    for (auto& count : layer.step_counts()) counts.push_back(count);
  });
  if (counts.empty()) return;
  const Tensor all = at::cat(counts);
  stage_group_->all_reduce(all, comm::ReduceOp::sum, {.label = "expert counts"}).wait();
  std::int64_t first = 0;
  for (auto& count : counts) {
    count.copy_(all.narrow(0, first, count.numel()));
    first += count.numel();
  }
}

void ParallelModel::end_step(const Tensor& applied) {
  for (auto& unit : units_) {
    unit->end_step();
    unit->mark_stale();
  }
  visit_here([&](nn::LayerBase& layer) { layer.end_of_step(applied); });
}

void ParallelModel::reset() {
  deferred_.clear();
  for (auto& unit : units_) unit->reset();
  visit_here([](nn::LayerBase& layer) {
    for (auto& count : layer.step_counts()) count.zero_();
  });
}

std::vector<std::pair<const void*, const void*>> ParallelModel::memory() const {
  auto ranges = slots_.memory();
  for (const auto& unit : units_) {
    for (const auto& range : unit->memory()) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace coeus::parallel
