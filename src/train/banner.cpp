#include "core/torch.h"
#include "estimate/memory.h"
#include "train/session.h"

namespace coeus::train {
namespace {

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

estimate::MemoryBytes predict(const JobConfig& c, const ModelSpec& spec, const Mesh& mesh,
                              at::ScalarType compute) {
  estimate::MemoryOptions options{.compute_bytes =
                                      static_cast<std::int64_t>(c10::elementSize(compute))};
  if (c.parallel.reshard_after_forward == ReshardAfterForward::never)
    options.residency = estimate::Residency::persistent;
  if (c.parallel.accumulate == Accumulate::full)
    options.accumulation = estimate::Accumulation::full;
  return estimate::predict_memory(spec, c.model->plan(), mesh, options);
}

}  // namespace

void Session::print_banner() const {
  const JobConfig& c = config();
  const int ranks = options_.world.size;
  log().info("{} · {} on {}", options_.build.value("version", "coeus"), mesh().describe(),
             options_.device.str());
  log().info("{}: {} parameters in {} units, {} compute, fp32 master and moments", c.model->name(),
             spec_.num_parameters(), model_->units().size(),
             compute_ == at::kBFloat16 ? "bf16" : "fp32");
  const auto bytes = predict(c, spec_, mesh(), compute_);
  const auto memory = core::memory_use(options_.device);
  log().info("predicted memory {}: {} (weights {}, gradients {}, master {}, moments {}){}",
             ranks == 1 ? "without activations" : "per rank, without activations",
             gibibytes(bytes.total()), gibibytes(bytes.weights), gibibytes(bytes.gradients),
             gibibytes(bytes.master), gibibytes(bytes.moments),
             memory ? " of " + gibibytes(memory->total_bytes) : "");
  log().info("{} samples of {} tokens an epoch; {} steps of {} sequences, {} tokens in all",
             train_data_->size(), train_data_->sequence_length(), last_step_,
             c.training.global_batch_size,
             last_step_ * c.training.global_batch_size * train_data_->sequence_length());
  if (first_step() > last_step_)
    log().info("nothing left to do: this run is at step {} of {}", state_.step, last_step_);
}

}  // namespace coeus::train
