#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/world.h"

namespace coeus::comm {

// Where the ranks of a world find each other: libtorch's TCPStore, served by rank 0 or by
// torchrun's agent. Used at start only.
class Store {
 public:
  // Throws CommError if the store cannot be reached within `timeout`.
  Store(const World& world, std::chrono::milliseconds timeout);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Every rank gives its text and gets those of all. Throws CommError naming the ranks that did not
  // come in time.
  std::vector<std::string> exchange(const std::string& mine);

 private:
  struct Impl;
  World world_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coeus::comm
