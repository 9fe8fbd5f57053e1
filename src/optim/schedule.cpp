#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace coeus::optim {
namespace {

// The lengths of warm-up and decay: as asked for, and as they fit into `steps`.
struct Phases {
  std::int64_t warmup, decay;
};

Phases wanted(const LrScheduleConfig& config, std::int64_t steps, std::int64_t warmup) {
  switch (config.name) {
    case LrScheduleKind::wsd:
      return {warmup, std::llround(config.decay_ratio * static_cast<double>(steps))};
    case LrScheduleKind::linear:
    case LrScheduleKind::cosine:
      return {warmup, std::max<std::int64_t>(0, steps - warmup)};
    case LrScheduleKind::constant:
      return {warmup, 0};
  }
  COEUS_ASSERT(false, "lr_schedule");
}

Phases fitted(const LrScheduleConfig& config, std::int64_t steps) {
  const std::int64_t warmup = std::min(config.warmup_steps, steps);
  const Phases phases = wanted(config, steps, warmup);
  return {warmup, std::min(phases.decay, steps - warmup)};
}

}  // namespace

double lr_multiplier(const LrScheduleConfig& config, std::int64_t step, std::int64_t steps) {
  const auto [warmup, decay] = fitted(config, steps);
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const std::int64_t decayed = step - steps + decay;
  if (decay == 0 || decayed <= 0) return 1.0;
  const double x = std::min(1.0, static_cast<double>(decayed) / static_cast<double>(decay));
  const double f =
      config.name == LrScheduleKind::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * x)) : 1 - x;
  return config.min_lr_ratio + (1 - config.min_lr_ratio) * f;
}

std::string schedule_warning(const LrScheduleConfig& config, std::int64_t steps) {
  const Phases asked = wanted(config, steps, config.warmup_steps);
  const Phases got = fitted(config, steps);
  if (asked.warmup == got.warmup && asked.decay == got.decay) return "";
  std::string cut;
  if (asked.warmup != got.warmup) {
    cut += fmt::format(", warm-up from {} to {}", asked.warmup, got.warmup);
  }
  if (asked.decay != got.decay) cut += fmt::format(", decay from {} to {}", asked.decay, got.decay);
  return fmt::format("lr_schedule: cut to fit into {} steps: {}", steps, cut.substr(2));
}

}  // namespace coeus::optim
