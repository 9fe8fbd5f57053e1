#pragma once
#include <coeus/nn/layer.h>

#include <memory>

namespace coeus::parallel {

// Keeps only the layer's input and runs its forward again in backward.
std::unique_ptr<nn::Attachment> make_recompute();

// Selective recompute: every linear below `layer` whose input a norm or SwiGLU forms lets it be
// formed again in backward instead of keeping it.
void recompute_cheap_inputs(nn::LayerBase& layer);

}  // namespace coeus::parallel
