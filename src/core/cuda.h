#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/tensor.h"

// Streams, events and memory of a device, without a CUDA header: on a CPU device all of it does
// nothing.
namespace coeus::core {

// A point in the current stream's work that another stream can wait for. Reusable.
class Event {
 public:
  explicit Event(at::Device device);
  ~Event();
  Event(Event&&) noexcept;
  void record();             // on the current stream
  void wait() const;         // the current stream waits; nothing if never recorded
  void synchronize() const;  // the host waits
  void clear();              // as if never recorded

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A stream beside the compute stream. While `Guard` lives it is the current one.
class SideStream {
 public:
  explicit SideStream(at::Device device);
  ~SideStream();
  class Guard {
   public:
    explicit Guard(const SideStream& side);
    ~Guard();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

void* native_stream(
    const Tensor& tensor);  // the cudaStream_t that work on this tensor's device is queued on
// Threads libtorch may use for one operation on CPU; set before rank threads start, each inherits
// it.
void set_cpu_threads(int count);
int device_count();                  // CUDA devices libtorch sees; 0 in a build without CUDA
void use_device(at::Device device);  // makes it this thread's current one
void synchronize(at::Device device);
struct MemoryUse {
  std::int64_t peak_bytes = 0, total_bytes = 0;
};
std::optional<MemoryUse> memory_use(
    at::Device device);  // peak since reset_peak_memory; nullopt on CPU
void reset_peak_memory(at::Device device);

}  // namespace coeus::core
