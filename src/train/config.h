#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coeus::config {
class Fields;
}

namespace coeus {

enum class Deterministic { off, on, layout };
struct RunConfig {
  std::string directory;  // required
  std::string cache = "runs/.cache";
  std::int64_t seed = 42;
  Deterministic deterministic = Deterministic::off;
  std::string resume = "auto";  // auto | never | PATH
  void describe(config::Fields& f);
};

struct TrainingConfig {
  std::optional<std::int64_t> steps, tokens;  // exactly one of steps, tokens, epochs
  std::optional<double> epochs;
  std::int64_t global_batch_size = 256, micro_batch_size = 1;
  double max_grad_norm = 1.0;  // 0: no clipping
  void describe(config::Fields& f);
};

enum class FloatType { automatic, fp32, bf16 };
struct PrecisionConfig {
  FloatType compute = FloatType::automatic;  // auto: bf16 on GPU, fp32 on CPU
  FloatType reduce = FloatType::fp32, master = FloatType::fp32, moments = FloatType::fp32;
  std::string fp8 = "off", fp8_scaling = "delayed";
  std::vector<std::string> fp8_skip = {"head"};
  void describe(config::Fields& f);
};

enum class NonFinite { stop, skip, rollback };
struct GuardsConfig {
  NonFinite non_finite = NonFinite::stop;
  std::string spike = "off";
  double timeout_seconds = 600,
         startup_timeout_seconds =
             1200;  // written as durations: 10m, 20m (keys timeout, startup_timeout)
  void describe(config::Fields& f);
};

struct ProfileConfig {
  std::vector<std::int64_t> steps;
  void describe(config::Fields& f);
};

}  // namespace coeus
