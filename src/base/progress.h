#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace coeus {

// A bar on a terminal, a plain line every ten seconds elsewhere. Goes to stderr.
class Progress {
 public:
  Progress(std::string title, std::uint64_t total, std::string unit);
  ~Progress();
  void set(std::uint64_t done);  // any thread
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coeus
