#include <coeus/nn/model.h>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::nn {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// "../q_proj.weight" seen from "a.qkv" is "a.q_proj.weight"; a plain name lies below `layer`.
std::string resolve(const std::string& layer, const std::string& relative) {
  if (relative.rfind("../", 0) != 0) return join(layer, relative);
  const auto dot = layer.rfind('.');
  return join(dot == std::string::npos ? "" : layer.substr(0, dot), relative.substr(3));
}

}  // namespace

Tensor Model::forward(const Tensor& x, const Batch& batch) {
  return run(0, chain_.size(), x, batch);
}

Tensor Model::run(std::size_t begin, std::size_t end, Tensor x, const Batch& batch) {
  for (std::size_t i = begin; i < end; ++i) x = chain_[i].call(x, batch);
  return x;
}

LossSum Model::loss(const Tensor& out, const Batch& batch) {
  return {out, batch.labels.ne(-100).sum(), LossSum::Gradient::formed};
}

LayerBase* Model::find(const std::string& fqn) {
  LayerBase* found = nullptr;
  for (const auto& link : chain_) {
    link.layer->visit(link.name, [&](const std::string& name, LayerBase& layer) {
      if (name == fqn) found = &layer;
    });
  }
  return found;
}

std::map<std::string, Parameter*> Model::parameters() const {
  std::map<std::string, Parameter*> all;
  for (const auto& link : chain_) {
    link.layer->visit(link.name, [&](const std::string& name, LayerBase& layer) {
      for (const auto& p : layer.own_parameters()) {
        if (p.parameter->tied_to == nullptr) all[join(name, p.name)] = p.parameter.get();
      }
    });
  }
  return all;
}

std::map<std::string, Buffer*> Model::buffers() const {
  std::map<std::string, Buffer*> all;
  for (const auto& link : chain_) {
    link.layer->visit(link.name, [&](const std::string& name, LayerBase& layer) {
      for (const auto& b : layer.own_buffers()) all[join(name, b->segment.fqn)] = b.get();
    });
  }
  return all;
}

Parameter& Model::parameter(const std::string& fqn) {
  for (const auto& link : chain_) {
    Parameter* found = nullptr;
    link.layer->visit(link.name, [&](const std::string& name, LayerBase& layer) {
      for (const auto& p : layer.own_parameters()) {
        if (join(name, p.name) == fqn) found = p.parameter.get();
      }
    });
    if (found != nullptr) return *found;
  }
  throw ConfigError("the model has no parameter named " + fqn);
}

std::vector<LayerSpec> Model::layer_specs() const {
  std::vector<LayerSpec> specs;
  for (const auto& link : chain_) {
    LayerSpec spec{link.name, {}, {}};
    link.layer->visit(link.name, [&](const std::string& name, LayerBase& layer) {
      for (const auto& p : layer.own_parameters()) {
        if (p.parameter->tied_to != nullptr) continue;
        ParameterSpec parameter{join(name, p.name), p.parameter->segments, p.parameter->compute};
        for (auto& segment : parameter.segments) segment.fqn = resolve(name, segment.fqn);
        spec.parameters.push_back(std::move(parameter));
      }
      for (const auto& b : layer.own_buffers()) {
        spec.buffers.push_back(b->segment);
        spec.buffers.back().fqn = join(name, b->segment.fqn);
      }
    });
    specs.push_back(std::move(spec));
  }
  return specs;
}

void Model::tie(const std::string& alias, const std::string& target) {
  parameter(alias).tie_to(parameter(target));
  ties_.push_back({alias, target});
}

void materialize(Model& model, at::Device device, at::ScalarType compute) {
  for (auto& [name, p] : model.parameters()) {
    const auto dtype = p->compute == ComputeType::fp32 ? at::kFloat : compute;
    p->place(at::empty({p->numel()}, at::TensorOptions().device(device).dtype(dtype)), 0);
  }
  for (auto& [name, b] : model.buffers()) b->allocate(device);
}

}  // namespace coeus::nn
