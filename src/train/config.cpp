#include "train/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<Deterministic>> enum_names(Deterministic) {
  static constexpr EnumName<Deterministic> kNames[] = {
      {Deterministic::off, "off"}, {Deterministic::on, "on"}, {Deterministic::layout, "layout"}};
  return kNames;
}

std::span<const EnumName<FloatType>> enum_names(FloatType) {
  static constexpr EnumName<FloatType> kNames[] = {
      {FloatType::automatic, "auto"}, {FloatType::fp32, "fp32"}, {FloatType::bf16, "bf16"}};
  return kNames;
}

std::span<const EnumName<NonFinite>> enum_names(NonFinite) {
  static constexpr EnumName<NonFinite> kNames[] = {
      {NonFinite::stop, "stop"}, {NonFinite::skip, "skip"}, {NonFinite::rollback, "rollback"}};
  return kNames;
}

void RunConfig::describe(Fields& f) {
  f("directory", directory, "where all that the run writes goes; an existing run there resumes",
    required())("cache", cache, "where tokenized data is kept, shared by runs", not_empty())(
      "seed", seed, "of initial weights, sample order and all other randomness", at_least(0))(
      "deterministic", deterministic, "on: the same bits in every run of the same layout")(
      "resume", resume, "auto | never | a step folder to continue from", not_empty());
}

void TrainingConfig::describe(Fields& f) {
  f("steps", steps, "optimizer updates; give one of steps, tokens, epochs", at_least(1))(
      "tokens", tokens, "instead of steps: tokens to train on, rounded up to whole steps",
      at_least(1))("epochs", epochs, "instead of steps: passes over the data", above(0))(
      "global_batch_size", global_batch_size, "sequences a step, over all ranks", at_least(1))(
      "micro_batch_size", micro_batch_size, "sequences in one forward pass of a rank", at_least(1))(
      "max_grad_norm", max_grad_norm, "gradients are scaled down to this global norm; 0: never",
      at_least(0));
}

void PrecisionConfig::describe(Fields& f) {
  f("compute", compute, "of weights and activations; auto: bf16 on GPU, fp32 on CPU")(
      "reduce", reduce, "of gradients and their reduction")("master", master,
                                                            "of the weights the optimizer keeps")(
      "moments", moments, "of the optimizer's moments")("fp8", fp8, "8-bit matrix products",
                                                        one_of({"off", "tensorwise", "rowwise"}))(
      "fp8_scaling", fp8_scaling, "where 8-bit scales come from", one_of({"delayed", "current"}))(
      "fp8_skip", fp8_skip, "layers that stay out of 8 bits");
}

void GuardsConfig::describe(Fields& f) {
  f("non_finite", non_finite, "what a NaN or infinite loss or gradient norm does")(
      "spike", spike, "what a loss spike does", not_empty())(
      "timeout", duration(timeout_seconds), "how long a rank waits for another", above(0))(
      "startup_timeout", duration(startup_timeout_seconds),
      "how long ranks wait for each other at the start", above(0));
}

void ProfileConfig::describe(Fields& f) {
  f("steps", steps, "steps that are profiled", at_least(1));
}

}  // namespace coeus
