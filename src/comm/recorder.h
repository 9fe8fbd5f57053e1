#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/operation.h"

namespace coeus::comm {

// One call, as it was made: pointers are those handed to the backend.
struct Record {
  Operation operation;
  std::string group;
  const void* input = nullptr;
  const void* output = nullptr;
  std::size_t input_bytes = 0, output_bytes = 0;
};

// What recorders of one process wrote, in order; safe for several threads.
class Recording {
 public:
  void add(Record record);
  std::vector<Record> records() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

// Forwards every call to `inner` and records it first; groups split from it record too.
std::unique_ptr<Communicator> make_recorder(std::unique_ptr<Communicator> inner,
                                            std::shared_ptr<Recording> recording);

}  // namespace coeus::comm
