#pragma once
#include <coeus/core/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <coeus/layout/segments.h>

namespace coeus::nn {

// Where our ops write a weight's gradient: a view of the unit's gradient slot, never an autograd
// result. The first write after the slot was taken overwrites, later ones add.
class GradTarget {
 public:
  enum class Write { overwrite, add };

  // The view that the next write goes to, fp32 and of the weight's shape, and how; the write that
  // follows is then `add`. Throws if the unit holds no gradient slot.
  Tensor& begin_write(Write& how);
  void accumulate(const Tensor& gradient);  // any float dtype; writes or adds in fp32
  // += or = aᵀ·b with a [N, out], b [N, in], in fp32 accumulation.
  void accumulate_outer(const Tensor& a_NO, const Tensor& b_NI);

  Tensor buffer;  // undefined: no slot taken
  Write next = Write::overwrite;
};

// Who forms a parameter's gradient: one of our ops through its GradTarget, or libtorch's
// AccumulateGrad.
enum class GradSource { autograd, target };

// A leaf tensor whose memory a unit gives it. Its identity never changes; members may keep
// references or copies.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  Parameter(std::vector<std::int64_t> shape, std::vector<Segment> segments, ComputeType compute,
            GradSource source);

  // Puts the leaf over `storage_owner`'s storage from `offset` elements on (dtype and device of
  // that tensor).
  void place(const Tensor& storage_owner, std::int64_t offset);
  // Gives the leaf the shape of the part that this rank holds; before it is placed.
  void cut(std::vector<std::int64_t> local_shape);
  // Where its gradient goes; null: it flows through autograd.
  const std::shared_ptr<GradTarget>& gradient_target() const {
    return tied_to != nullptr ? tied_to->target : target;
  }
  // Shares leaf and gradient target with `target`: one tensor under two names.
  void tie_to(Parameter& target);

  std::vector<std::int64_t> shape;  // [out, in], of the whole stack
  std::vector<Segment> segments;    // fqn relative to the layer; "../q_proj.weight" names a sibling
  ComputeType compute = ComputeType::compute;
  GradSource source = GradSource::autograd;
  std::shared_ptr<GradTarget>
      target;  // null until a unit manages it: gradients then flow through autograd
  Parameter* tied_to = nullptr;
};

// State of a layer that is saved with its weights but has no gradient, fp32. Members may keep
// references; until `allocate` it has no memory.
class Buffer : public Tensor {
 public:
  explicit Buffer(Segment s) : segment(std::move(s)) {}
  void allocate(at::Device device);  // and sets the values that segment.init says: zeros or ones
  Segment segment;                   // fqn relative to the layer
};

}  // namespace coeus::nn
