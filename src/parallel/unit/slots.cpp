#include "parallel/unit/slots.h"

#include <algorithm>

namespace coeus::parallel {

Slot& SlotPool::assign(Purpose purpose, at::ScalarType dtype, std::int64_t elements,
                       std::int64_t scratch_elements) {
  SizeClass& c = classes_[{purpose, dtype, elements}];
  c.scratch_elements = std::max(c.scratch_elements, scratch_elements);
  const auto index = c.assigned++ % kSlotsPerClass;
  if (index == c.slots.size()) c.slots.push_back(std::make_unique<Slot>());
  return *c.slots[index];
}

void SlotPool::allocate(at::Device device) {
  for (auto& [key, c] : classes_) {
    const auto& [purpose, dtype, elements] = key;
    for (auto& slot : c.slots) {
      slot->buffer = at::empty({elements}, at::TensorOptions().device(device).dtype(dtype));
      if (c.scratch_elements > 0)
        slot->scratch = at::empty({c.scratch_elements}, slot->buffer.options());
      slot->busy = std::make_unique<core::Event>(device);
    }
  }
}

std::vector<Slot*> SlotPool::all() {
  std::vector<Slot*> slots;
  for (auto& [key, c] : classes_) {
    for (auto& slot : c.slots) slots.push_back(slot.get());
  }
  return slots;
}

std::vector<std::pair<const void*, const void*>> SlotPool::memory() const {
  std::vector<std::pair<const void*, const void*>> ranges;
  for (const auto& [key, c] : classes_) {
    for (const auto& slot : c.slots) {
      for (const Tensor& t : {slot->buffer, slot->scratch}) {
        if (t.defined())
          ranges.emplace_back(t.data_ptr(), static_cast<const char*>(t.data_ptr()) + t.nbytes());
      }
    }
  }
  return ranges;
}

}  // namespace coeus::parallel
