#pragma once
#include <coeus/nn/layer.h>

#include <map>
#include <string>
#include <vector>

namespace coeus::nn {

// A chain of named layers: any contiguous run of it is a valid pipeline stage. The last one is the
// head.
class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  struct Link {
    std::string name;
    std::unique_ptr<LayerBase> layer;
    std::function<Tensor(const Tensor&, const Batch&)> call;
  };

  // Layers in order, the first is given batch.tokens.
  virtual Tensor forward(const Tensor& x, const Batch& batch);
  Tensor run(std::size_t begin, std::size_t end, Tensor x, const Batch& batch);
  // {sum, count}. By default the chain's result is the head's loss sum, whose gradient the head has
  // formed already.
  virtual LossSum loss(const Tensor& out, const Batch& batch);

  const std::vector<Link>& chain() const { return chain_; }
  const std::vector<Tie>& ties() const { return ties_; }
  LayerBase* find(const std::string& fqn);  // null if there is none
  std::map<std::string, Parameter*> parameters()
      const;                                       // by fqn, ties once, under the target's name
  Parameter& parameter(const std::string& fqn);    // by any name
  std::map<std::string, Buffer*> buffers() const;  // by fqn
  // Its segments, parameters and buffers, as spec.cpp must give them.
  std::vector<LayerSpec> layer_specs() const;

 protected:
  template <class L, class... Args>
  L& append(std::string name, Args&&... args) {
    auto layer = std::make_unique<L>(std::forward<Args>(args)...);
    L& ref = *layer;
    Link link{std::move(name), std::move(layer), {}};
    if constexpr (std::is_base_of_v<SimpleLayer, L>) {
      link.call = [&ref](const Tensor& x, const Batch&) {
        return static_cast<SimpleLayer&>(ref)(x);
      };
    } else {
      link.call = [&ref](const Tensor& x, const Batch& batch) {
        return static_cast<Layer&>(ref)(x, batch);
      };
    }
    chain_.push_back(std::move(link));
    return ref;
  }
  // `alias` becomes another name of `target`.
  void tie(const std::string& alias, const std::string& target);

 private:
  std::vector<Link> chain_;
  std::vector<Tie> ties_;
};

// Gives every parameter and buffer memory of its own (no unit manages it): tests and inference.
// Values of parameters are unset.
void materialize(Model& model, at::Device device, at::ScalarType compute);

}  // namespace coeus::nn
