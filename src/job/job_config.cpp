#include "job/job_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "config/reference.h"
#include "config/tree.h"
#include "job/sections.h"
#include "layout/mesh.h"

namespace coeus {

JobConfig::JobConfig() = default;

JobConfig::JobConfig(const JobConfig& o)
    : run(o.run),
      model(o.model ? o.model->clone() : nullptr),
      model_preset(o.model_preset),
      tokenizer(o.tokenizer),
      data(o.data),
      training(o.training),
      parallel(o.parallel),
      execution(o.execution),
      precision(o.precision),
      optimizer(o.optimizer),
      lr_schedule(o.lr_schedule),
      checkpoint(o.checkpoint),
      guards(o.guards),
      evaluation(o.evaluation),
      metrics(o.metrics),
      comm(o.comm),
      profile(o.profile),
      plugins(o.plugins) {}

JobConfig& JobConfig::operator=(const JobConfig& other) {
  JobConfig copy(other);
  *this = std::move(copy);
  return *this;
}

std::vector<std::string> check_layout(const JobConfig& config, std::int64_t world_size) {
  try {
    const Mesh mesh(world_size, config.parallel.mesh_sizes());
    const MeshSizes& sizes = mesh.sizes();
    const TrainingConfig& t = config.training;
    const auto portion =
        static_cast<__int128>(sizes.dp_replicate) * sizes.dp_shard * t.micro_batch_size;
    if (t.global_batch_size % portion == 0) return {};
    return {fmt::format(
        "training.global_batch_size: {} is not a multiple of dp_replicate {} · dp_shard {} · "
        "micro_batch_size {} in a world of {}",
        t.global_batch_size, sizes.dp_replicate, sizes.dp_shard, t.micro_batch_size, world_size)};
  } catch (const ConfigError& e) {
    std::vector<std::string> faults;
    const std::string text = e.what();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      faults.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return faults;
  }
}

void check_vocabulary(JobConfig& config, std::int64_t tokenizer_vocab_size) {
  const std::int64_t size = config.model->vocab_size();
  if (size == 0) return config.model->set_vocab_size(tokenizer_vocab_size);
  if (size >= tokenizer_vocab_size) return;
  throw ConfigError(fmt::format("model.vocab_size: {} is smaller than the tokenizer's {} ({})",
                                size, tokenizer_vocab_size, config.tokenizer.path));
}

std::vector<std::string> missing_inputs(const JobConfig& config) {
  std::vector<std::string> missing;
  const auto check = [&](const std::vector<SourceConfig>& sources, const char* key) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (!files::glob(sources[i].path).empty()) continue;
      missing.push_back(fmt::format("{}: {}.{}: no file matches {} here", sources[i].where, key, i,
                                    sources[i].path));
    }
  };
  check(config.data.sources, "data.sources");
  check(config.evaluation.sources, "evaluation.sources");
  const std::string& tokenizer = config.tokenizer.path;
  if (tokenizer != "byte" && !files::exists(tokenizer)) {
    missing.push_back(fmt::format("tokenizer.path: there is no {} here", tokenizer));
  }
  return missing;
}

std::string resolved_text(const JobConfig& config) {
  return config::print_tree(job::write_tree(config, config::Mode::write));
}

}  // namespace coeus
