#include "parallel/styles.h"

#include "base/error.h"
#include "parallel/context/context.h"
#include "parallel/expert/expert.h"
#include "parallel/tensor/tensor.h"

namespace coeus::parallel {
namespace {

class Styles {
 public:
  Styles(nn::Model& model, const StyleOptions& options, comm::Groups& groups)
      : model_(model),
        options_(options),
        tp_(groups.open("tp")),
        cp_(groups.open("cp")),
        ep_(groups.open("ep")),
        world_(groups.open("world")) {
    for (const auto& layer : options.placed.layers) {
      for (const auto& p : layer.parameters) parameters_[p.fqn] = &p;
    }
  }

  void apply(StyleKind kind, const std::string& fqn, nn::LayerBase& layer) {
    switch (kind) {
      case StyleKind::column_parallel:
        if (tp_.size() > 1) layer.attach(make_gather_input(tensor(fqn)));
        return;
      case StyleKind::row_parallel:
        if (tp_.size() > 1) layer.attach(make_reduce_output(tensor(fqn)));
        return;
      case StyleKind::head_parallel:
        if (tp_.size() == 1) return;
        layer.attach(make_gather_input(tensor(fqn)));
        layer.attach(make_reduce_output(tensor(fqn)));
        return;
      case StyleKind::vocab_parallel:
        if (tp_.size() > 1) vocabulary(fqn, layer);
        return;
      case StyleKind::sequence_parallel:
        return;  // its activations are parts already
      case StyleKind::context_parallel:
        if (cp_.size() > 1) check_heads(fqn);
        if (cp_.size() > 1)
          parent(fqn).replace_child(last_name(fqn), make_context_core(options_.cp_style, cp_));
        return;
      case StyleKind::expert_parallel:
        experts(fqn, layer);
        return;
    }
  }

 private:
  TensorParallelOptions tensor(const std::string& fqn) const {
    return {.tp = &tp_, .sequence_parallel = options_.sequence_parallel, .label = fqn};
  }

  // Ulysses gives each cp rank whole heads of those that tp left here.
  void check_heads(const std::string& core) const {
    if (options_.cp_style != CpStyle::ulysses) return;
    const std::string attention = core.substr(0, core.rfind('.') + 1);
    std::int64_t heads = 0;
    for (const auto& [fqn, p] : parameters_) {
      if (!fqn.starts_with(attention)) continue;
      for (const auto& segment : p->segments) heads = std::max(heads, segment.heads.rows);
    }
    if (heads % (tp_.size() * cp_.size()) == 0) return;
    throw ConfigError(fmt::format(
        "parallel.cp_style: ulysses: {} heads of {} are not a multiple of tp {} · cp {}", heads,
        core, tp_.size(), cp_.size()));
  }

  static std::string last_name(const std::string& fqn) { return fqn.substr(fqn.rfind('.') + 1); }
  nn::LayerBase& parent(const std::string& fqn) {
    const auto dot = fqn.rfind('.');
    nn::LayerBase* found = dot == std::string::npos ? nullptr : model_.find(fqn.substr(0, dot));
    if (found == nullptr)
      throw ConfigError(fmt::format("plan: {} lies in no layer that could replace it", fqn));
    return *found;
  }

  const ParameterSpec& weight_of(const std::string& layer) const {
    std::string fqn = layer + ".weight";
    for (const auto& tie : options_.placed.ties) {
      if (tie.alias == fqn) fqn = tie.target;
    }
    const auto found = parameters_.find(fqn);
    if (found == parameters_.end())
      throw ConfigError(fmt::format("plan: vocab_parallel {} has no weight", layer));
    return *found->second;
  }

  void vocabulary(const std::string& fqn, nn::LayerBase& layer) {
    const ParameterSpec& weight = weight_of(fqn);
    const std::int64_t width = weight.segments[0].shape[1];
    if (layer.forms_gradients_in_forward()) {
      layer.attach(make_gather_input(tensor(fqn)));
      layer.replace_child(
          "loss", make_vocabulary_loss(weight.part(0), weight.reserved / width, tensor(fqn)));
    } else {
      layer.attach(make_vocabulary_lookup(weight.part(0)));
      layer.attach(make_reduce_output(tensor(fqn)));
    }
  }

  void experts(const std::string& fqn, nn::LayerBase& layer) {
    const auto router = parameters_.find(fqn + ".router.weight");
    if (router == parameters_.end())
      throw ConfigError(fmt::format("plan: expert_parallel {} has no router.weight", fqn));
    const std::int64_t num_experts = router->second->segments[0].shape[0];
    if (ep_.size() > 1) {
      layer.replace_child("dispatch", make_expert_dispatch(ep_, num_experts, fqn));
    } else if (world_.size() > 1) {
      layer.replace_child("dispatch", make_local_dispatch(world_, num_experts, fqn));
    }
    std::vector<comm::Communicator*> axes;
    for (comm::Communicator* axis : {&cp_, &tp_}) {
      if (axis->size() > 1) axes.push_back(axis);
    }
    if (!axes.empty()) layer.replace_child("counts", make_count_sum(axes, fqn));
  }

  nn::Model& model_;
  const StyleOptions& options_;
  comm::Communicator &tp_, &cp_, &ep_, &world_;
  std::map<std::string, const ParameterSpec*> parameters_;
};

}  // namespace

void apply_styles(nn::Model& model, const StyleOptions& options, comm::Groups& groups) {
  Styles styles(model, options, groups);
  std::vector<std::pair<std::string, nn::LayerBase*>> layers;
  for (const auto& link : model.chain()) {
    link.layer->visit(link.name, [&](const std::string& fqn, nn::LayerBase& layer) {
      layers.emplace_back(fqn, &layer);
    });
  }
  // Names first: a style may replace a layer that a later one would visit.
  for (const auto& rule : options.plan.styles) {
    for (auto& [fqn, layer] : layers) {
      if (matches(rule.pattern, fqn)) styles.apply(rule.style.kind, fqn, *model.find(fqn));
    }
  }
}

}  // namespace coeus::parallel
