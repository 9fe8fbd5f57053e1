#include "train/graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace coeus::train {

struct StepGraph::State {
  c10::cuda::CUDAStream stream;
  at::cuda::CUDAGraph graph;
};

StepGraph::StepGraph(at::Device device)
    : state_(new State{c10::cuda::getStreamFromPool(false, device.index()), {}}) {}
StepGraph::~StepGraph() = default;

void StepGraph::capture(const std::function<void()>& work) {
  state_->stream.synchronize();
  c10::cuda::device_synchronize();
  c10::cuda::CUDAStreamGuard guard(state_->stream);
  state_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  work();
  state_->graph.capture_end();
}

void StepGraph::replay() {
  state_->graph.replay();
}

}  // namespace coeus::train
