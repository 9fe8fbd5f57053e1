#pragma once
#include <ATen/core/Tensor.h>

namespace coeus {

using Tensor = at::Tensor;  // libtorch's; headers see libtorch through here only

}  // namespace coeus
