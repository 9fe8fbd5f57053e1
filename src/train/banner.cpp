#include "core/torch.h"
#include "estimate/explain.h"
#include "train/session.h"

namespace coeus::train {
namespace {

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
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
  estimate::MemoryOptions options = estimate::memory_options(c);
  options.compute_bytes = static_cast<std::int64_t>(c10::elementSize(compute_));
  const auto& stages = model_->stages();
  for (std::size_t i = 0; i < stages.ranges.size(); ++i) {
    if (stages.rank_of_stage[i] == groups_->coordinate("pp"))
      options.stages.push_back(stages.ranges[i]);
  }
  const auto bytes = estimate::predict_memory(spec_, c.model->plan(), mesh(), options);
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
