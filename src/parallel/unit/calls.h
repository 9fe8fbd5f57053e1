#pragma once
#include <coeus/nn/layer.h>

#include <memory>
#include <vector>

#include "parallel/unit/unit.h"

namespace coeus::parallel {

// One layer's use of one unit: unshards it around the layer's forward and backward, and says when
// its gradient is complete. Order in forward: unshard, identity on x, the layer, hooks on every
// output, reshard. In backward the hooks run first, the identity last.
class UnitCall : public nn::Attachment {
 public:
  UnitCall(Unit& unit, const nn::LayerBase& layer, at::Device device);
  nn::Tensors run(const Tensor& x, const nn::Next& next) override;

  // Neighbours in the chain, whose units are fetched ahead. Null at the ends.
  UnitCall* next_call = nullptr;
  UnitCall* previous_call = nullptr;
  Unit& unit() { return unit_; }

 private:
  friend struct BeginBackward;
  friend struct EndBackward;
  void begin_backward();
  void end_backward();

  Unit& unit_;
  bool backward_reads_weights_, gradients_in_forward_;
  Tensor anchor_;  // [] requires grad: stands in for an input that needs none (token ids)
};

}  // namespace coeus::parallel
