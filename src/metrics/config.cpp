#include "metrics/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

void MetricsConfig::describe(Fields& f) {
  f("every", every, "steps between logged lines", at_least(1))(
      "console", console, "lines on the terminal")("jsonl", jsonl, "metrics.jsonl")(
      "csv", csv, "metrics.csv")("tensorboard", tensorboard, "tensorboard/ event files")(
      "prometheus_port", prometheus_port, "port that serves the metrics", between(1, 65535));
}

}  // namespace coeus
