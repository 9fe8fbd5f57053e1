#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <source_location>
#include <vector>

#include "base/unique_handle.h"

namespace coeus::comm {

void check(ncclResult_t result, std::source_location where = std::source_location::current());
void check(cudaError_t result, std::source_location where = std::source_location::current());

void destroy_stream(cudaStream_t stream);
void destroy_event(cudaEvent_t event);
using Stream = UniqueHandle<cudaStream_t, destroy_stream>;
using CudaEvent = UniqueHandle<cudaEvent_t, destroy_event>;
Stream make_stream();  // non-blocking, of the highest priority
CudaEvent make_event();

// Events are made once and used again: a step issues hundreds of operations.
class EventPool {
 public:
  CudaEvent take();
  void give_back(CudaEvent event);

 private:
  std::mutex mutex_;
  std::vector<CudaEvent> free_;
};

// Ends a communicator on a thread of its own, since either call may wait for a peer that is gone.
enum class Ending { destroy, abort };
std::shared_future<void> end_communicator(ncclComm_t communicator, int cuda_device, Ending ending);

}  // namespace coeus::comm
