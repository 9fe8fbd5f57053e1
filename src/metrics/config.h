#pragma once
#include <cstdint>
#include <optional>

namespace coeus::config {
class Fields;
}

namespace coeus {

struct MetricsConfig {
  std::int64_t every = 10;
  bool console = true, jsonl = true, csv = false, tensorboard = false;
  std::optional<std::int64_t> prometheus_port;
  void describe(config::Fields& f);
};

}  // namespace coeus
