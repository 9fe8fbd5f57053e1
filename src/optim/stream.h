#pragma once
#include "core/torch.h"

namespace coeus::optim {

// The native handle of the stream that work on this tensor's device is queued on.
inline void* current_stream(const Tensor& tensor) {
  const c10::Device device = tensor.device();
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace coeus::optim
