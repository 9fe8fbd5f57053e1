#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "core/cuda.h"
#include "core/torch.h"

namespace coeus::parallel {

// A full-sized buffer that units of one size class take turns in. Its address never changes, so
// each step repeats the last one's.
struct Slot {
  Tensor buffer;   // [elements]
  Tensor scratch;  // [elements / group] for a reduction that has to be added; gradient slots only
  const void* holder = nullptr;  // the section that uses it now
  const void* content =
      nullptr;  // the section whose gathered weights it still holds, fresh until marked stale
  std::unique_ptr<core::Event> busy;  // a reduction that still reads it
};

// Slots of all size classes: (dtype, elements, purpose). A chain needs two of each: one in use, one
// being filled or reduced.
class SlotPool {
 public:
  // Units within the layers of others (experts) have slots of their own: both are in use at once.
  enum class Purpose { weights, gradients, inner_weights, inner_gradients };
  static constexpr std::size_t kSlotsPerClass = 2;

  // The slot for the next unit of that class: units take them in turn (index % slots).
  Slot& assign(Purpose purpose, at::ScalarType dtype, std::int64_t elements,
               std::int64_t scratch_elements);
  void allocate(at::Device device);
  std::vector<Slot*> all();
  // [begin, end) of every slot's memory.
  std::vector<std::pair<const void*, const void*>> memory() const;

 private:
  using Key = std::tuple<Purpose, at::ScalarType, std::int64_t>;
  struct SizeClass {
    std::vector<std::unique_ptr<Slot>> slots;
    std::int64_t scratch_elements = 0;
    std::size_t assigned = 0;
  };
  std::map<Key, SizeClass> classes_;
};

}  // namespace coeus::parallel
