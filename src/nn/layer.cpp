#include <coeus/nn/layer.h>

#include "base/error.h"

namespace coeus::nn {
namespace {
thread_local bool recomputing = false;
}

bool is_recompute() {
  return recomputing;
}
RecomputeGuard::RecomputeGuard() : outer_(recomputing) {
  recomputing = true;
}
RecomputeGuard::~RecomputeGuard() {
  recomputing = outer_;
}

void LayerBase::visit(const std::string& prefix,
                      const std::function<void(const std::string&, LayerBase&)>& f) {
  f(prefix, *this);
  for (const auto& c : children_)
    c->layer->visit(prefix.empty() ? c->name : prefix + "." + c->name, f);
}

std::unique_ptr<LayerBase>& LayerBase::add_child(std::string name,
                                                 std::unique_ptr<LayerBase> layer) {
  for (const auto& c : children_) COEUS_ASSERT(c->name != name, "two children named {}", name);
  children_.push_back(std::make_unique<Child>(Child{std::move(name), std::move(layer)}));
  return children_.back()->layer;
}

void LayerBase::replace_child(const std::string& name, std::unique_ptr<LayerBase> layer) {
  for (const auto& c : children_) {
    if (c->name == name) {
      c->layer = std::move(layer);
      return;
    }
  }
  COEUS_ASSERT(false, "no child named {}", name);
}

Parameter& LayerBase::parameter(std::string name, std::vector<std::int64_t> shape, Init init,
                                GradSource source) {
  Segment segment{name, shape, init};
  return parameter(std::move(name), std::make_unique<Parameter>(
                                        std::move(shape), std::vector<Segment>{std::move(segment)},
                                        ComputeType::compute, source));
}

Parameter& LayerBase::parameter(std::string name, std::unique_ptr<Parameter> parameter) {
  for (const auto& p : parameters_) COEUS_ASSERT(p.name != name, "two parameters named {}", name);
  parameters_.push_back({std::move(name), std::move(parameter)});
  return *parameters_.back().parameter;
}

Buffer& LayerBase::buffer(std::string name, std::vector<std::int64_t> shape, Init init) {
  for (const auto& b : buffers_) COEUS_ASSERT(b->segment.fqn != name, "two buffers named {}", name);
  COEUS_ASSERT(init.kind != InitKind::normal, "buffer {}: drawn values are for parameters", name);
  buffers_.push_back(
      std::make_unique<Buffer>(Segment{std::move(name), std::move(shape), init, {}}));
  return *buffers_.back();
}

}  // namespace coeus::nn
