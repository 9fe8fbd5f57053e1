#include "comm/nccl/handles.h"

#include <fmt/format.h>

#include <thread>

#include "base/error.h"

namespace coeus::comm {

void check(ncclResult_t result, std::source_location where) {
  if (result == ncclSuccess) return;
  throw CommError(fmt::format("NCCL: {} ({}; {}:{})", ncclGetErrorString(result),
                              ncclGetLastError(nullptr), where.file_name(), where.line()));
}

void check(cudaError_t result, std::source_location where) {
  if (result == cudaSuccess) return;
  throw CommError(
      fmt::format("CUDA: {} ({}:{})", cudaGetErrorString(result), where.file_name(), where.line()));
}

void destroy_stream(cudaStream_t stream) {
  cudaStreamDestroy(stream);
}
void destroy_event(cudaEvent_t event) {
  cudaEventDestroy(event);
}

Stream make_stream() {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest));
  return Stream(stream);
}

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return CudaEvent(event);
}

CudaEvent EventPool::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return make_event();
  CudaEvent event = std::move(free_.back());
  free_.pop_back();
  return event;
}

void EventPool::give_back(CudaEvent event) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(event));
}

std::shared_future<void> end_communicator(ncclComm_t communicator, int cuda_device, Ending ending) {
  std::packaged_task<void()> task([=] {
    cudaSetDevice(cuda_device);
    if (ending == Ending::abort) {
      ncclCommAbort(communicator);
    } else {
      ncclCommDestroy(communicator);
    }
  });
  std::shared_future<void> ended = task.get_future().share();
  std::thread(std::move(task)).detach();
  return ended;
}

}  // namespace coeus::comm
