#pragma once

namespace coeus::kernels {

// Throws if the kernel that was just launched on this thread could not be.
void check_launch(const char* operation);

}  // namespace coeus::kernels
