#include "metrics/record.h"

#include <array>

#include "metrics/sinks/sinks.h"

namespace coeus::metrics {
namespace {

struct SinkKind {
  bool MetricsConfig::*wanted;
  std::unique_ptr<Sink> (*make)(const SinkPlace& place);
};

constexpr std::array kSinks = {
    SinkKind{&MetricsConfig::console, make_console},
    SinkKind{&MetricsConfig::jsonl, make_jsonl},
    SinkKind{&MetricsConfig::csv, make_csv},
    SinkKind{&MetricsConfig::tensorboard, make_tensorboard},
};

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json to_json(const StepRecord& r) {
  return {{"step", r.step},
          {"tokens", r.tokens},
          {"valid_tokens", r.valid_tokens},
          {"samples", r.samples},
          {"loss", r.loss},
          {"grad_norm", r.grad_norm},
          {"lr", r.lr},
          {"step_seconds", r.step_seconds},
          {"tokens_per_second", r.tokens_per_second},
          {"tokens_per_second_per_device", r.tokens_per_second_per_device},
          {"tflops_per_device", or_null(r.tflops_per_device)},
          {"mfu", or_null(r.mfu)},
          {"mfu_causal", or_null(r.mfu_causal)},
          {"memory_peak_bytes", or_null(r.memory_peak_bytes)},
          {"data_wait_seconds", r.data_wait_seconds},
          {"comm_exposed_seconds", or_null(r.comm_exposed_seconds)},
          {"time", r.time}};
}

Json to_json(const ValidationRecord& r) {
  return {{"step", r.step},
          {"validation_loss", r.validation_loss},
          {"validation_tokens", r.validation_tokens},
          {"time", r.time}};
}

std::vector<std::unique_ptr<Sink>> make_sinks(const MetricsConfig& config,
                                              const files::Path& run_directory,
                                              std::shared_ptr<Logger> console) {
  const SinkPlace place{run_directory, std::move(console)};
  std::vector<std::unique_ptr<Sink>> sinks;
  for (const auto& kind : kSinks) {
    if (config.*kind.wanted) sinks.push_back(kind.make(place));
  }
  return sinks;
}

}  // namespace coeus::metrics
