#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "train/step.h"

namespace coeus::train {

class Session;
using Step = std::int64_t;  // 1-based number of an optimizer update

// How a run ended.
enum class Outcome { finished, saved, non_finite };

struct Decision {
  bool save = false;
  std::optional<Outcome> stop;
};

// Something that looks on after each step: metrics, evaluation, cadences, guards, signals.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual Decision after(Step step, const StepResult& result) = 0;
};

// All observers of a rank. What any rank decides, every rank does: the worst outcome wins.
class Observers {
 public:
  explicit Observers(comm::Communicator& host) : host_(host) {}
  void add(std::unique_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }
  Decision after(Step step, const StepResult& result);

 private:
  comm::Communicator& host_;
  std::vector<std::unique_ptr<Observer>> observers_;
};

std::unique_ptr<Observer> make_metrics_observer(Session& session);
std::unique_ptr<Observer> make_evaluation_observer(Session& session);
std::unique_ptr<Observer> make_checkpoint_observer(Session& session);
std::unique_ptr<Observer> make_non_finite_guard(Session& session);
std::unique_ptr<Observer> make_signal_observer(Session& session);

}  // namespace coeus::train
