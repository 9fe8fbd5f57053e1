#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "metrics/config.h"

namespace coeus::metrics {

// One logged step; the names are those of metrics.jsonl, a field without a value is null.
struct StepRecord {
  std::int64_t step = 0, tokens = 0, valid_tokens = 0, samples = 0;
  double loss = 0, grad_norm = 0, lr = 0, step_seconds = 0, tokens_per_second = 0,
         tokens_per_second_per_device = 0;
  std::optional<double> tflops_per_device, mfu, mfu_causal;  // mfu in percent, as TorchTitan's
  std::optional<std::int64_t> memory_peak_bytes;
  double data_wait_seconds = 0;
  std::optional<double> comm_exposed_seconds;
  double time = 0;                        // seconds since 1970
  std::optional<double> eta_seconds;      // console only
  std::int64_t last_step = 0;             // console only
  std::optional<double> memory_fraction;  // console only
};
struct ValidationRecord {
  std::int64_t step = 0;
  double validation_loss = 0;
  std::int64_t validation_tokens = 0;
  double time = 0;
};
Json to_json(const StepRecord& record);
Json to_json(const ValidationRecord& record);

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const StepRecord& record) = 0;
  virtual void write(const ValidationRecord& record) = 0;
};

// The sinks that the configuration asks for, appending to the run directory.
std::vector<std::unique_ptr<Sink>> make_sinks(const MetricsConfig& config,
                                              const files::Path& run_directory,
                                              std::shared_ptr<Logger> console);

// events.jsonl: restarts, saves, skips, faults. One line, one write; any thread.
void append_event(const files::Path& run_directory, const std::string& event,
                  Json details = Json::object());

}  // namespace coeus::metrics
