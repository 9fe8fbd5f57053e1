#include "core/cuda.h"

#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/torch.h"

namespace coeus::core {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

struct Event::State {
  at::Device device;
  std::optional<c10::Event> event;
};
Event::Event(at::Device device) : state_(std::make_unique<State>(State{device, {}})) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
void Event::record() {
  if (!state_->device.is_cuda()) return;
  if (!state_->event) state_->event.emplace(state_->device.type());
  state_->event->record(current_stream(state_->device));
}
void Event::wait() const {
  if (state_->event) state_->event->block(current_stream(state_->device));
}
void Event::synchronize() const {
  if (state_->event) state_->event->synchronize();
}
void Event::clear() {
  state_->event.reset();
}

struct SideStream::State {
  std::optional<c10::Stream> stream;
};
SideStream::SideStream(at::Device device) : state_(std::make_unique<State>()) {
  if (device.is_cuda())
    state_->stream =
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, false);
}
SideStream::~SideStream() = default;

struct SideStream::Guard::State {
  std::optional<c10::StreamGuard> guard;
};
SideStream::Guard::Guard(const SideStream& side) : state_(std::make_unique<State>()) {
  if (side.state_->stream) state_->guard.emplace(*side.state_->stream);
}
SideStream::Guard::~Guard() = default;

void* native_stream(const Tensor& tensor) {
  return current_stream(tensor.device()).native_handle();
}

void set_cpu_threads(int count) {
  at::set_num_threads(count);
}

int device_count() {
  if (!at::hasCUDA()) return 0;
  return c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount();
}
void use_device(at::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}
void synchronize(at::Device device) {
  if (device.is_cuda())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}
std::optional<MemoryUse> memory_use(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  auto* allocator = c10::getDeviceAllocator(device.type());
  const auto stats = allocator->getDeviceStats(device.index());
  const auto [free, total] = allocator->getMemoryInfo(device.index());
  return MemoryUse{stats.reserved_bytes[0].peak, static_cast<std::int64_t>(total)};
}
void reset_peak_memory(at::Device device) {
  if (device.is_cuda()) c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
}

}  // namespace coeus::core
