#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace coeus::optim {
namespace {

struct Row {
  LrScheduleKind kind;
  std::int64_t warmup, steps;
  double decay_ratio;
  std::vector<double> multipliers;
};
constexpr double kFloor = 0.1;
// m + (1 − m)·f with f = 1 − x or ½(1 + cos πx)
double line(double x) {
  return kFloor + (1 - kFloor) * (1 - x);
}
double wave(double x) {
  return kFloor + (1 - kFloor) * 0.5 * (1 + std::cos(M_PI * x));
}

using enum LrScheduleKind;

TEST(Schedule, FollowsTheFormulaForTinyTotals) {
  const std::vector<Row> rows = {
      {wsd, 0, 1, 0.0, {1}},
      {wsd, 0, 1, 1.0, {1}},
      {wsd, 100, 1, 0.1, {1}},
      {wsd, 100, 2, 0.1, {0.5, 1}},
      {wsd, 1, 3, 0.5, {1, 1, line(0.5)}},
      {wsd, 1, 4, 0.5, {1, 1, 1, line(0.5)}},
      {wsd, 2, 5, 0.4, {0.5, 1, 1, 1, line(0.5)}},
      {wsd, 4, 5, 0.8, {0.25, 0.5, 0.75, 1, 1}},
      {linear, 0, 2, 0.1, {1, line(0.5)}},
      {linear, 1, 5, 0.1, {1, 1, line(0.25), line(0.5), line(0.75)}},
      {linear, 5, 5, 0.1, {0.2, 0.4, 0.6, 0.8, 1}},
      {cosine, 1, 5, 0.1, {1, 1, wave(0.25), wave(0.5), wave(0.75)}},
      {cosine, 0, 1, 0.1, {1}},
      {cosine, 7, 3, 0.1, {1.0 / 3, 2.0 / 3, 1}},
      {constant, 2, 4, 0.5, {0.5, 1, 1, 1}},
      {constant, 9, 3, 0.5, {1.0 / 3, 2.0 / 3, 1}},
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const LrScheduleConfig config{.name = rows[r].kind,
                                  .warmup_steps = rows[r].warmup,
                                  .decay_ratio = rows[r].decay_ratio,
                                  .min_lr_ratio = kFloor};
    for (std::int64_t s = 0; s < rows[r].steps; ++s) {
      EXPECT_NEAR(lr_multiplier(config, s, rows[r].steps),
                  rows[r].multipliers[static_cast<std::size_t>(s)], 1e-15)
          << "row " << r << " step " << s;
    }
  }
}

TEST(Schedule, ReachesItsPhasesInALongRun) {
  const LrScheduleConfig config{.warmup_steps = 100, .decay_ratio = 0.1, .min_lr_ratio = 0};
  EXPECT_DOUBLE_EQ(lr_multiplier(config, 0, 1000), 0.01);
  EXPECT_DOUBLE_EQ(lr_multiplier(config, 99, 1000), 1);
  EXPECT_DOUBLE_EQ(lr_multiplier(config, 900, 1000), 1);
  EXPECT_DOUBLE_EQ(lr_multiplier(config, 950, 1000), 0.5);
  EXPECT_NEAR(lr_multiplier(config, 999, 1000), 0.01, 1e-15);
}

TEST(Schedule, NeverLeavesItsFloorAfterTheLastStep) {
  EXPECT_DOUBLE_EQ(lr_multiplier({.warmup_steps = 1}, 5000, 1000), 0.1);
}

TEST(Schedule, WarnsOnceIfSomethingWasCut) {
  EXPECT_EQ(schedule_warning({.warmup_steps = 100, .decay_ratio = 0.1}, 1000), "");
  EXPECT_EQ(schedule_warning({.name = cosine, .warmup_steps = 100}, 100), "");
  EXPECT_EQ(schedule_warning({.warmup_steps = 100, .decay_ratio = 0.5}, 10),
            "lr_schedule: cut to fit into 10 steps: warm-up from 100 to 10, decay from 5 to 0");
  EXPECT_EQ(schedule_warning({.warmup_steps = 6, .decay_ratio = 0.5}, 10),
            "lr_schedule: cut to fit into 10 steps: decay from 5 to 4");
  EXPECT_EQ(schedule_warning({.name = linear, .warmup_steps = 11}, 10),
            "lr_schedule: cut to fit into 10 steps: warm-up from 11 to 10");
}

}  // namespace
}  // namespace coeus::optim
