#pragma once
#include <memory>

#include "metrics/record.h"

namespace coeus::metrics {

// Where sinks write.
struct SinkPlace {
  files::Path run_directory;
  std::shared_ptr<Logger> console;
};

std::unique_ptr<Sink> make_console(const SinkPlace& place);      // console.cpp
std::unique_ptr<Sink> make_jsonl(const SinkPlace& place);        // jsonl.cpp
std::unique_ptr<Sink> make_csv(const SinkPlace& place);          // csv.cpp
std::unique_ptr<Sink> make_tensorboard(const SinkPlace& place);  // tensorboard.cpp

}  // namespace coeus::metrics
