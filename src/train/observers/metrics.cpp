#include <algorithm>
#include <chrono>

#include "core/cuda.h"
#include "metrics/record.h"
#include "train/session.h"

namespace coeus::train {
namespace {

constexpr double kH200Bf16Flops = 989e12;  // H100 and H200, dense bf16, as TorchTitan counts
double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class MetricsObserver : public Observer {
 public:
  explicit MetricsObserver(Session& session) : session_(session), window_start_(now()) {
    if (session.is_first_rank())
      sinks_ = metrics::make_sinks(session.config().metrics, session.directory().path(),
                                   session.options().log);
  }

  Decision after(Step step, const StepResult& result) override {
    ++window_steps_;
    window_wait_ += result.data_wait_seconds;
    valid_tokens_ += result.valid_tokens;
    const auto every = session_.config().metrics.every;
    if (step != 1 && step != session_.last_step() && (every == 0 || step % every != 0)) return {};
    const metrics::StepRecord record = make_record(step, result);
    for (auto& sink : sinks_) sink->write(record);
    window_start_ = now();
    window_steps_ = 0;
    window_wait_ = 0;
    return {};
  }

 private:
  metrics::StepRecord make_record(Step step, const StepResult& result) {
    const JobConfig& c = session_.config();
    const double seconds =
        std::max(now() - window_start_, 1e-9) / static_cast<double>(window_steps_);
    const double tokens =
        static_cast<double>(c.training.global_batch_size * c.data.sequence_length);
    const double per_device = tokens / seconds / session_.options().world.size;
    metrics::StepRecord r{.step = step,
                          .tokens = session_.state().tokens,
                          .valid_tokens = valid_tokens_,
                          .samples = session_.state().next_sample};
    r.loss = result.loss;
    r.grad_norm = result.grad_norm;
    r.lr = result.lr;
    r.step_seconds = seconds;
    r.tokens_per_second = tokens / seconds;
    r.tokens_per_second_per_device = per_device;
    r.tflops_per_device =
        session_.spec().flops_per_token(c.data.sequence_length) * per_device / 1e12;
    if (session_.options().device.is_cuda()) {
      r.mfu = 100 * *r.tflops_per_device * 1e12 / kH200Bf16Flops;
      r.mfu_causal = 100 * session_.spec().flops_per_token_causal(c.data.sequence_length) *
                     per_device / kH200Bf16Flops;
    }
    if (const auto memory = core::memory_use(session_.options().device)) {
      r.memory_peak_bytes = memory->peak_bytes;
      r.memory_fraction =
          static_cast<double>(memory->peak_bytes) / static_cast<double>(memory->total_bytes);
    }
    r.data_wait_seconds = window_wait_;
    r.time = now();
    r.last_step = session_.last_step();
    r.eta_seconds = static_cast<double>(session_.last_step() - step) * seconds;
    return r;
  }

  Session& session_;
  std::vector<std::unique_ptr<metrics::Sink>> sinks_;
  double window_start_, window_wait_ = 0;
  std::int64_t window_steps_ = 0, valid_tokens_ = 0;
};

class EvaluationObserver : public Observer {
 public:
  explicit EvaluationObserver(Session& session) : session_(session) {
    if (session.is_first_rank())
      sinks_ = metrics::make_sinks(session.config().metrics, session.directory().path(),
                                   session.options().log);
  }
  Decision after(Step step, const StepResult&) override {
    const auto every = session_.config().evaluation.every;
    if (every == 0 || (step % every != 0 && step != session_.last_step())) return {};
    const auto e = session_.evaluate();
    if (!e) return {};
    for (auto& sink : sinks_)
      sink->write(metrics::ValidationRecord{.step = step,
                                            .validation_loss = e->first,
                                            .validation_tokens = e->second,
                                            .time = now()});
    return {};
  }

 private:
  Session& session_;
  std::vector<std::unique_ptr<metrics::Sink>> sinks_;
};

}  // namespace

std::unique_ptr<Observer> make_metrics_observer(Session& session) {
  return std::make_unique<MetricsObserver>(session);
}
std::unique_ptr<Observer> make_evaluation_observer(Session& session) {
  return std::make_unique<EvaluationObserver>(session);
}

}  // namespace coeus::train
