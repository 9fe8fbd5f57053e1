#pragma once
#include <functional>
#include <memory>

#include "core/tensor.h"

namespace coeus::train {

// A piece of device work captured once and replayed: a whole step, its collectives and optimizer
// included. Capture runs on a side stream in thread-local mode; what the work reads must keep its
// addresses. Needs a CUDA build and a CUDA device.
class StepGraph {
 public:
  explicit StepGraph(at::Device device);
  ~StepGraph();
  void capture(const std::function<void()>& work);  // the work is recorded, not run
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coeus::train
