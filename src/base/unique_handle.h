#pragma once
#include <utility>

namespace coeus {

// Owns a C handle: closed once by Close, movable, never copied.
template <class Handle, auto Close, Handle kEmpty = Handle{}>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, kEmpty)) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, kEmpty);
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != kEmpty; }
  Handle release() { return std::exchange(handle_, kEmpty); }
  void reset() noexcept {
    if (handle_ != kEmpty) Close(std::exchange(handle_, kEmpty));
  }

 private:
  Handle handle_ = kEmpty;
};

}  // namespace coeus
