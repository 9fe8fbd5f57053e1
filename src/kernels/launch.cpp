#include "kernels/launch.h"

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace coeus::kernels {

void check_launch(const char* operation) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw Error(ExitCode::failed,
                fmt::format("kernel {}: {}", operation, cudaGetErrorString(error)));
  }
}

}  // namespace coeus::kernels
