#include "base/error.h"
#include "train/graph.h"

namespace coeus::train {

struct StepGraph::State {};
StepGraph::StepGraph(at::Device) {
  throw ConfigError("CUDA graphs need a build with CUDA");
}
StepGraph::~StepGraph() = default;
void StepGraph::capture(const std::function<void()>&) {}
void StepGraph::replay() {}

}  // namespace coeus::train
