#pragma once
#include <coeus/nn/layer.h>

#include <memory>

namespace coeus::parallel {

// Keeps only the layer's input and runs its forward again in backward.
std::unique_ptr<nn::Attachment> make_recompute();

}  // namespace coeus::parallel
