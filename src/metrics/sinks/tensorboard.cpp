#include "metrics/sinks/event_file.h"
#include "metrics/sinks/sinks.h"

namespace coeus::metrics {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The tags are TorchTitan's, so that its dashboards carry over.
Scalars scalars_of(const StepRecord& r) {
  Scalars scalars = {{"loss_metrics/global_avg_loss", r.loss},
                     {"grad_norm", r.grad_norm},
                     {"throughput(tps)", r.tokens_per_second_per_device},
                     {"time_metrics/end_to_end(s)", r.step_seconds},
                     {"time_metrics/data_loading(s)", r.data_wait_seconds},
                     {"n_tokens_seen", static_cast<double>(r.tokens)},
                     {"lr", r.lr}};
  if (r.step_seconds > 0) {
    scalars.emplace_back("time_metrics/data_loading(%)",
                         100 * r.data_wait_seconds / r.step_seconds);
  }
  if (r.tflops_per_device) scalars.emplace_back("tflops", *r.tflops_per_device);
  if (r.mfu) scalars.emplace_back("mfu(%)", *r.mfu);
  if (r.memory_peak_bytes) {
    scalars.emplace_back("memory/max_reserved(GiB)",
                         static_cast<double>(*r.memory_peak_bytes) / kGiB);
  }
  if (r.memory_fraction) scalars.emplace_back("memory/max_reserved(%)", 100 * *r.memory_fraction);
  return scalars;
}

class TensorBoard final : public Sink {
 public:
  explicit TensorBoard(const files::Path& directory) : file_(directory) {}
  void write(const StepRecord& record) override {
    file_.append(scalars_event(record.time, record.step, scalars_of(record)));
  }
  void write(const ValidationRecord& record) override {
    file_.append(scalars_event(record.time, record.step,
                               {{"validation_metrics/loss", record.validation_loss}}));
  }

 private:
  EventFile file_;
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard(const SinkPlace& place) {
  return std::make_unique<TensorBoard>(place.run_directory / "tensorboard");
}

}  // namespace coeus::metrics
