#pragma once
#include <coeus/core/batch.h>
#include <coeus/core/tensor.h>
#include <coeus/nn/parameter.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace coeus::nn {

using Tensors = std::vector<Tensor>;
using Next = std::function<Tensors(const Tensor&)>;

// Something the framework put around a layer's calls from outside: unshard, redistribute,
// recompute. It sees the first tensor in and every tensor out; `next` runs the attachments inside
// it, then the layer's arithmetic, and may be kept by value.
class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual Tensors run(const Tensor& x, const Next& next) = 0;
};

// Converts a layer's result to tensors and back; specialise it for a struct of tensors.
template <class Out>
struct TensorPack;
template <>
struct TensorPack<Tensor> {
  static Tensors pack(Tensor out) { return {std::move(out)}; }
  static Tensor unpack(Tensors out) { return std::move(out[0]); }
};
template <class... T>
struct TensorPack<std::tuple<T...>> {
  static Tensors pack(std::tuple<T...> out) {
    return std::apply([](auto&... t) { return Tensors{t...}; }, out);
  }
  static std::tuple<T...> unpack(Tensors out) {
    return unpack(out, std::index_sequence_for<T...>{});
  }

 private:
  template <std::size_t... I>
  static std::tuple<T...> unpack(Tensors& out, std::index_sequence<I...>) {
    return {out[I]...};
  }
};

// True while a forward is run again in backward (recompute) on this thread: what counts tokens must
// count them once.
bool is_recompute();
class RecomputeGuard {
 public:
  RecomputeGuard();
  ~RecomputeGuard();
  RecomputeGuard(const RecomputeGuard&) = delete;

 private:
  bool outer_;
};

class LayerBase;

// A named child that may be replaced from outside (attention.core, moe.dispatch): the holder always
// calls the present one.
template <class L>
class Seam {
 public:
  explicit Seam(std::unique_ptr<LayerBase>& slot) : slot_(&slot) {}
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return static_cast<L&>(**slot_)(std::forward<Args>(args)...);
  }

 private:
  std::unique_ptr<LayerBase>* slot_;
};

// What every layer has: named children, parameters, attachments. Arithmetic only: no rank, mesh or
// dtype policy.
class LayerBase {
 public:
  LayerBase() = default;
  virtual ~LayerBase() = default;
  LayerBase(const LayerBase&) = delete;
  LayerBase& operator=(const LayerBase&) = delete;

  struct Child {
    std::string name;
    std::unique_ptr<LayerBase> layer;
  };
  struct NamedParameter {
    std::string name;
    std::unique_ptr<Parameter> parameter;
  };
  const std::vector<std::unique_ptr<Child>>& children() const { return children_; }
  const std::vector<NamedParameter>& own_parameters() const { return parameters_; }
  const std::vector<std::unique_ptr<Buffer>>& own_buffers() const { return buffers_; }
  // This layer as "" or `prefix`, then every descendant, parents first.
  void visit(const std::string& prefix,
             const std::function<void(const std::string& fqn, LayerBase&)>& f);
  void replace_child(const std::string& name, std::unique_ptr<LayerBase> layer);

  // What a unit must know of this layer: whether its backward reads the weights again, and whether
  // its weight gradients are written in forward already (the head).
  virtual bool backward_reads_weights() const { return true; }
  virtual bool forms_gradients_in_forward() const { return false; }

  // What this layer alone counted in the step, int64: whoever ends the step sums each in place over
  // the ranks that saw other tokens, then calls end_of_step, which uses and clears them.
  virtual bool sums_counts() const { return false; }  // whether the sum over ranks is needed
  virtual std::vector<Tensor> step_counts() { return {}; }
  // `applied` [] fp32: 1, or 0 for a step whose update was left out.
  virtual void end_of_step(const Tensor& applied) {}

  void attach(std::unique_ptr<Attachment> attachment) {
    attachments_.push_back(std::move(attachment));
  }  // outside those attached before
  const std::vector<std::unique_ptr<Attachment>>& attachments() const { return attachments_; }

 protected:
  template <class L, class... Args>
  L& child(std::string name, Args&&... args) {
    return static_cast<L&>(
        *add_child(std::move(name), std::make_unique<L>(std::forward<Args>(args)...)));
  }
  // A child that is built already.
  template <class L>
  L& adopt(std::string name, std::unique_ptr<L> layer) {
    return static_cast<L&>(*add_child(std::move(name), std::move(layer)));
  }
  template <class L, class Default, class... Args>
  Seam<L> seam(std::string name, Args&&... args) {
    return Seam<L>(
        add_child(std::move(name), std::make_unique<Default>(std::forward<Args>(args)...)));
  }
  // A parameter of one segment. `source` says who forms its gradient: ops that write a GradTarget
  // say so.
  Parameter& parameter(std::string name, std::vector<std::int64_t> shape, Init init = {},
                       GradSource source = GradSource::autograd);
  Parameter& parameter(std::string name, std::unique_ptr<Parameter> parameter);
  Buffer& buffer(std::string name, std::vector<std::int64_t> shape,
                 Init init = {InitKind::zeros, 0});

 private:
  std::unique_ptr<LayerBase>& add_child(std::string name, std::unique_ptr<LayerBase> layer);
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<NamedParameter> parameters_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Attachment>> attachments_;
};

// A layer of any signature whose first argument is a tensor.
template <class Signature>
class LayerOf;
template <class Out, class... In>
class LayerOf<Out(const Tensor&, In...)> : public LayerBase {
 public:
  Out operator()(const Tensor& x, In... in) {
    if (attachments().empty()) return forward(x, in...);
    Next next = [this, kept = std::tuple<std::decay_t<In>...>(in...)](const Tensor& y) {
      return std::apply([&](const auto&... a) { return TensorPack<Out>::pack(forward(y, a...)); },
                        kept);
    };
    for (const auto& attachment : attachments()) {
      next = [a = attachment.get(), inner = std::move(next)](const Tensor& y) {
        return a->run(y, inner);
      };
    }
    return TensorPack<Out>::unpack(next(x));
  }

 private:
  virtual Out forward(const Tensor& x, In... in) = 0;
};

using Layer = LayerOf<Tensor(const Tensor&, const Batch&)>;
using SimpleLayer = LayerOf<Tensor(const Tensor&)>;  // reads nothing of the batch

namespace init {
inline Init normal(double std) {
  return {InitKind::normal, std};
}
inline Init ones() {
  return {InitKind::ones, 0};
}
inline Init zeros() {
  return {InitKind::zeros, 0};
}
}  // namespace init

}  // namespace coeus::nn
