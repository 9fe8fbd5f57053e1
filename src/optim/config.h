#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coeus::config {
class Fields;
}

namespace coeus {

struct OptimizerGroup {  // the first group whose pattern matches a segment's fqn wins
  std::string match;
  std::optional<double> weight_decay, lr_scale;
  void describe(config::Fields& f);
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8,
         weight_decay = 0.1;  // decay on segments of two or more dims unless a group says otherwise
  std::vector<OptimizerGroup> groups;
  void describe(config::Fields& f);
};

enum class LrScheduleKind { wsd, linear, cosine, constant };
struct LrScheduleConfig {
  LrScheduleKind name = LrScheduleKind::wsd;
  std::int64_t warmup_steps = 100;
  double decay_ratio = 0.1, min_lr_ratio = 0.1;
  void describe(config::Fields& f);
};

}  // namespace coeus
