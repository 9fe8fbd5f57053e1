#include "checkpoint/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<Verify>> enum_names(Verify) {
  static constexpr EnumName<Verify> kNames[] = {
      {Verify::full, "full"}, {Verify::own, "own"}, {Verify::off, "off"}};
  return kNames;
}

void CheckpointConfig::describe(Fields& f) {
  f("every", every, "steps between saves; 0: only at the end", at_least(0))(
      "keep", keep, "newest checkpoints kept; 0: all", at_least(0))(
      "keep_every", keep_every, "multiples of this many steps are kept for good; 0: none",
      at_least(0))("async", async, "write while training goes on")(
      "initialize_from", initialize_from, "folder of a model to start from, weights only")(
      "initialize_optimizer", initialize_optimizer, "take its optimizer state as well")(
      "verify", verify, "which of the files read are checked against their hashes");
}

}  // namespace coeus
