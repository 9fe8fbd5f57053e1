#include "optim/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<LrScheduleKind>> enum_names(LrScheduleKind) {
  using K = LrScheduleKind;
  static constexpr EnumName<K> kNames[] = {
      {K::wsd, "wsd"}, {K::linear, "linear"}, {K::cosine, "cosine"}, {K::constant, "constant"}};
  return kNames;
}

void OptimizerGroup::describe(Fields& f) {
  f("match", match, "pattern of tensor names: * within a name part, ** over dots", required())(
      "weight_decay", weight_decay, "instead of the optimizer's", at_least(0))(
      "lr_scale", lr_scale, "factor on the learning rate", at_least(0));
}

void OptimizerConfig::describe(Fields& f) {
  f("name", name, "optimizer", one_of({"adamw"}))("lr", lr, "peak learning rate", above(0))(
      "betas", betas, "decay rates of the two moments", from_up_to_below(0, 1))(
      "eps", eps, "added to the root of the second moment", above(0))(
      "weight_decay", weight_decay, "on tensors of two or more dims", at_least(0))(
      "groups", groups, "exceptions by pattern, the first match wins");
}

void LrScheduleConfig::describe(Fields& f) {
  f("name", name, "shape after warm-up")("warmup_steps", warmup_steps,
                                         "steps of linear rise from zero", at_least(0))(
      "decay_ratio", decay_ratio, "wsd: share of the steps that decay", between(0, 1))(
      "min_lr_ratio", min_lr_ratio, "last learning rate over the peak", between(0, 1));
}

}  // namespace coeus
