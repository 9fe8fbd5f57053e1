#pragma once
#include <optional>
#include <string>

#include "models/hf_keys.h"

namespace coeus::models {

// Of a model that scales nothing.
struct NoRopeScaling {
  double factor = 1.0;
  friend bool operator==(const NoRopeScaling&, const NoRopeScaling&) = default;
};

template <class Scaling>
struct HfRope {
  double theta;
  Scaling scaling;
};

// config.json says RoPE in two ways, of which a file may hold both if they agree: rope_theta beside
// rope_scaling (transformers 4), and rope_parameters with rope_theta inside (5).
// `read_scaling(keys, type)` reads the other keys of either object, for a type that is not
// "default", and refuses the types that it does not know.
template <class Scaling, class ReadScaling>
HfRope<Scaling> read_hf_rope(const HfKeys& keys, double default_theta, ReadScaling read_scaling) {
  std::optional<double> inner_theta;
  const auto read = [&](const char* key) -> std::optional<Scaling> {
    if (!keys.find(key)) return std::nullopt;
    const HfKeys object = keys.below(key);
    const std::string type =
        object.string("rope_type").value_or(object.string("type").value_or("default"));
    if (object.number("partial_rotary_factor").value_or(1.0) != 1.0) {
      object.fail("partial_rotary_factor", "rotating part of a head is not supported");
    }
    inner_theta = object.number("rope_theta");
    return type == "default" ? Scaling{} : read_scaling(object, type);
  };
  const std::optional<Scaling> old_spelling = read("rope_scaling");
  inner_theta.reset();
  const std::optional<Scaling> new_spelling = read("rope_parameters");
  if (old_spelling && new_spelling && !(*old_spelling == *new_spelling) &&
      !(old_spelling->factor == 1.0 && new_spelling->factor == 1.0)) {
    keys.fail("rope_scaling", "differs from rope_parameters");
  }
  const auto outer_theta = keys.number("rope_theta");
  if (outer_theta && inner_theta && *outer_theta != *inner_theta) {
    keys.fail("rope_theta", "differs from rope_parameters.rope_theta");
  }
  return {inner_theta.value_or(outer_theta.value_or(default_theta)),
          new_spelling.value_or(old_spelling.value_or(Scaling{}))};
}

// The same for a model that scales nothing: the base of its frequencies.
double read_hf_rope_theta(const HfKeys& keys, double default_theta);

// Both spellings, as `scaling` (null, or an object with rope_type) has it.
void write_hf_rope(Json& config, double theta, Json scaling);

}  // namespace coeus::models
