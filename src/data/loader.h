#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace coeus::data {

// Host memory for `num_sequences` samples, given by the trainer (pinned where there is a GPU).
struct HostBuffers {
  std::int64_t* tokens;  // [num_sequences, sequence_length]
  std::int64_t* labels;
  std::int64_t* positions;
};

struct LoadedSequences {
  std::vector<SampleInfo> samples;  // one per sequence
  std::int64_t valid_tokens = 0;
  double wait_seconds = 0;  // how long wait() blocked
};

// Reader threads that fill host buffers ahead of the step. One request is filled per buffer;
// several may be in flight.
class Loader {
 public:
  // `end`: global sample numbers from here on are filled with ignored sequences (finite data).
  Loader(const Dataset& dataset, std::int64_t num_threads, std::int64_t end);
  ~Loader();

  // Starts filling `into` with these global sample numbers; returns a ticket.
  std::int64_t start(std::vector<std::int64_t> sample_numbers, HostBuffers into);
  // Blocks until that request is complete; rethrows a reader's failure. Each ticket once.
  LoadedSequences wait(std::int64_t ticket);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coeus::data
