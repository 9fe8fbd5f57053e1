#include "parallel/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<ReshardAfterForward>> enum_names(ReshardAfterForward) {
  using R = ReshardAfterForward;
  static constexpr EnumName<R> kNames[] = {
      {R::automatic, "auto"}, {R::always, "always"}, {R::never, "never"}};
  return kNames;
}

std::span<const EnumName<Accumulate>> enum_names(Accumulate) {
  static constexpr EnumName<Accumulate> kNames[] = {{Accumulate::automatic, "auto"},
                                                    {Accumulate::sharded, "sharded"},
                                                    {Accumulate::full, "full"}};
  return kNames;
}

std::span<const EnumName<CpStyle>> enum_names(CpStyle) {
  static constexpr EnumName<CpStyle> kNames[] = {
      {CpStyle::ring, "ring"}, {CpStyle::all_gather, "all_gather"}, {CpStyle::ulysses, "ulysses"}};
  return kNames;
}

std::span<const EnumName<Recompute>> enum_names(Recompute) {
  static constexpr EnumName<Recompute> kNames[] = {
      {Recompute::none, "none"}, {Recompute::full, "full"}, {Recompute::selective, "selective"}};
  return kNames;
}

void ParallelConfig::describe(Fields& f) {
  f("dp_replicate", dp_replicate, "data-parallel ranks that hold the same weights", at_least(1))(
      "dp_shard", dp_shard, "data-parallel ranks that shard weights; -1: all that are left",
      at_least(-1))("tp", tp, "tensor-parallel ranks", at_least(1))(
      "cp", cp, "context-parallel ranks", at_least(1))(
      "pp", pp, "pipeline stages' ranks", at_least(1))("ep", ep, "expert-parallel ranks",
                                                       at_least(1))(
      "sequence_parallel", sequence_parallel, "with tp: norms work on a part of the sequence")(
      "reshard_after_forward", reshard_after_forward,
      "free gathered weights after forward; auto: always, but never with pp > 1")(
      "accumulate", accumulate,
      "gradients over micro-batches; auto: sharded, but full with pp > 1")(
      "tp_overlap", tp_overlap, "overlap tensor-parallel communication", not_empty())(
      "pp_schedule", pp_schedule, "a schedule's name or file", not_empty())(
      "pp_stages_per_rank", pp_stages_per_rank, "pipeline stages on each rank", at_least(1))(
      "cp_style", cp_style, "how context-parallel ranks exchange keys and values");
}

void ExecutionConfig::Kernels::describe(Fields& f) {
  f("attention", attention, "attention kernel", not_empty())("norm", norm, "norm kernel",
                                                             not_empty());
}

void ExecutionConfig::describe(Fields& f) {
  f("recompute", recompute, "which activations are recomputed in backward instead of kept")(
      "recompute_every", recompute_every, "recompute only every n-th block", at_least(1))(
      "cuda_graph", cuda_graph, "capture the whole step in a CUDA graph",
      one_of({"auto", "on", "off"}))("kernels", kernels, "kernel choices");
}

}  // namespace coeus
