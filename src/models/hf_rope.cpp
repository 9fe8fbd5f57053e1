#include "models/hf_rope.h"

#include <fmt/format.h>

namespace coeus::models {

double read_hf_rope_theta(const HfKeys& keys, double default_theta) {
  return read_hf_rope<NoRopeScaling>(
             keys, default_theta,
             [](const HfKeys& object, const std::string& type) -> NoRopeScaling {
               object.fail("rope_type", fmt::format("{} is not supported, only default", type));
             })
      .theta;
}

void write_hf_rope(Json& config, double theta, Json scaling) {
  Json parameters = scaling.is_null() ? Json{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = theta;
  config["rope_theta"] = theta;
  config["rope_scaling"] = std::move(scaling);
  config["rope_parameters"] = std::move(parameters);
}

}  // namespace coeus::models
