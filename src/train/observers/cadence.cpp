#include "metrics/record.h"
#include "train/session.h"

namespace coeus::train {
namespace {

// Saves every checkpoint.every steps and at the end.
class CheckpointObserver : public Observer {
 public:
  explicit CheckpointObserver(Session& session) : session_(session) {}
  Decision after(Step step, const StepResult&) override {
    const auto every = session_.config().checkpoint.every;
    return {.save = step == session_.last_step() || (every > 0 && step % every == 0), .stop = {}};
  }

 private:
  Session& session_;
};

// SIGTERM, SIGINT or SIGUSR1 on any rank: save at this step's boundary and leave.
class SignalObserver : public Observer {
 public:
  explicit SignalObserver(Session& session) : session_(session) {}
  Decision after(Step step, const StepResult&) override {
    const auto* signal = session_.options().stop_signal;
    if (signal == nullptr || signal->load() == 0 || step == session_.last_step()) return {};
    return {.save = true, .stop = Outcome::saved};
  }

 private:
  Session& session_;
};

// The device has left the update out already; here it is recorded, and by policy the run ends.
class NonFiniteGuard : public Observer {
 public:
  explicit NonFiniteGuard(Session& session) : session_(session) {}
  Decision after(Step step, const StepResult& result) override {
    if (result.applied) return {};
    const bool stop = session_.config().guards.non_finite == NonFinite::stop;
    if (session_.is_first_rank()) {
      metrics::append_event(session_.directory().path(),
                            stop ? "non_finite_stop" : "non_finite_skip",
                            {{"step", step},
                             {"loss", fmt::to_string(result.loss)},
                             {"grad_norm", fmt::to_string(result.grad_norm)}});
    }
    session_.log().error(
        "step {}: loss {} with gradient norm {} is not finite; the update was left out", step,
        result.loss, result.grad_norm);
    if (!stop) return {};
    return {.save = false, .stop = Outcome::non_finite};
  }

 private:
  Session& session_;
};

}  // namespace

std::unique_ptr<Observer> make_checkpoint_observer(Session& session) {
  return std::make_unique<CheckpointObserver>(session);
}
std::unique_ptr<Observer> make_signal_observer(Session& session) {
  return std::make_unique<SignalObserver>(session);
}
std::unique_ptr<Observer> make_non_finite_guard(Session& session) {
  return std::make_unique<NonFiniteGuard>(session);
}

}  // namespace coeus::train
