#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace coeus::config {
class Fields;
}

namespace coeus {

enum class Verify { full, own, off };
struct CheckpointConfig {
  std::int64_t every = 500;        // steps; 0: only at the end
  std::int64_t keep = 3;           // newest ones kept; 0: all
  std::int64_t keep_every = 5000;  // and every multiple of this; 0: none
  bool async = false;
  std::optional<std::string> initialize_from;
  bool initialize_optimizer = false;
  Verify verify = Verify::full;
  void describe(config::Fields& f);
};

}  // namespace coeus
