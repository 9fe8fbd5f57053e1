#include "train/session.h"

namespace coeus::train {

Outcome run(Session& session) {
  for (Step step = session.first_step(); step <= session.last_step(); ++step) {
    const StepResult result = session.train_step(session.feed().next());
    const Decision decision = session.observers().after(step, result);
    if (decision.save) session.save(step);
    if (decision.stop) return *decision.stop;
  }
  return Outcome::finished;
}

}  // namespace coeus::train
