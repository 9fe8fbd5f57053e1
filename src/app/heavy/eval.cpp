#include <CLI/CLI.hpp>

#include "app/heavy/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "data/dataset.h"
#include "inference/evaluate.h"
#include "inference/load.h"
#include "job/job_config.h"
#include "train/registry.h"

namespace coeus::app {
namespace {

using inference::LoadedModel;

struct Options {
  std::string path, data;
  std::int64_t sequence_length = 0;
  inference::EvaluateOptions evaluate;
  bool json = false;
};

Options parse(const Arguments& arguments) {
  Options options;
  CLI::App cli{"", "coeus eval"};
  cli.set_help_flag();
  cli.add_option("PATH", options.path)->required();
  cli.add_option("--data", options.data);
  cli.add_option("--sequence-length", options.sequence_length)->check(CLI::PositiveNumber);
  cli.add_option("--batch-size", options.evaluate.batch_size)->check(CLI::PositiveNumber);
  cli.add_option("--max-samples", options.evaluate.max_samples)->check(CLI::PositiveNumber);
  cli.add_flag("--json", options.json);
  try {
    cli.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    throw UsageError(fmt::format("coeus eval: {}", e.what()));
  }
  return options;
}

// The configuration of the run that `path` is, or that its step folder lies in.
std::optional<JobConfig> config_of_run(const files::Path& path) {
  const files::Path absolute = std::filesystem::weakly_canonical(path);
  for (const auto& run : {absolute, absolute.parent_path().parent_path()}) {
    const files::Path file = run / "config.resolved.yaml";
    if (files::exists(file)) return parse_job(files::read_text(file), file.string()).config;
  }
  return std::nullopt;
}

// Longest first choice: the flag, what the run was trained at, 2048; never beyond the model's.
std::int64_t window_length(const Options& options, const LoadedModel& loaded,
                           const std::optional<JobConfig>& run) {
  std::int64_t length = options.sequence_length;
  if (loaded.max_positions > 0 && length > loaded.max_positions) {
    throw UsageError(fmt::format("--sequence-length {} is more than the {} positions of the model",
                                 length, loaded.max_positions));
  }
  if (length == 0) length = run ? run->data.sequence_length : 2048;
  return loaded.max_positions > 0 ? std::min(length, loaded.max_positions) : length;
}

// --data, or what the run holds out of its training.
std::unique_ptr<data::Dataset> open_data(const Options& options, const LoadedModel& loaded) {
  const std::optional<JobConfig> run = config_of_run(options.path);
  data::DatasetOptions dataset;
  dataset.order = data::DatasetOptions::Order::sequential;
  if (run) {
    dataset.data = run->data;
    dataset.cache = run->run.cache;
    dataset.seed = run->run.seed;
  } else {
    dataset.cache = RunConfig().cache;
  }
  const std::int64_t length = window_length(options, loaded, run);
  if (!options.data.empty()) {
    dataset.data.sources.assign(1, {});
    dataset.data.sources[0].path = options.data;
    dataset.data.sources[0].where = "--data";
    dataset.data.packing = Packing::concat;
    dataset.data.sequence_length = 1;
    return inference::in_windows(data::open_dataset(dataset, loaded.tokenizer, data::Split::train),
                                 length);
  }
  if (!run) throw UsageError(fmt::format("{} is no run: say --data FILE", options.path));
  dataset.evaluation = run->evaluation;
  if (dataset.evaluation.sources.empty() && dataset.evaluation.holdout <= 0) {
    throw UsageError(fmt::format("the run {} holds no text out: say --data FILE", options.path));
  }
  dataset.data.sequence_length = length;
  return data::open_dataset(dataset, loaded.tokenizer, data::Split::holdout);
}

void print(const Options& options, const LoadedModel& loaded,
           const inference::EvaluationResult& result) {
  const std::string data = options.data.empty() ? "held out of the run" : options.data;
  if (options.json) {
    const Json json = {{"path", loaded.folder.string()},
                       {"data", data},
                       {"tokens", result.valid_tokens},
                       {"bytes", result.bytes},
                       {"loss", result.loss()},
                       {"perplexity", result.perplexity()},
                       {"bits_per_byte", result.bits_per_byte()}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("model          {}\n", loaded.folder.string());
  fmt::print("data           {} ({} tokens, {} bytes)\n", data, result.valid_tokens, result.bytes);
  fmt::print("loss           {:.4f} nats a token\n", result.loss());
  fmt::print("perplexity     {:.4f}\n", result.perplexity());
  fmt::print("bits per byte  {:.4f}\n", result.bits_per_byte());
}

}  // namespace

int eval(const Arguments& arguments) {
  const auto build_model = [models = builtin_registry()](const ModelConfig& config) {
    return models.build_model(config);
  };
  Options options = parse(arguments);
  const LoadedModel loaded =
      inference::load_model(options.path, build_model, inference::default_device());
  const auto dataset = open_data(options, loaded);
  std::int64_t samples = dataset->size();
  if (options.evaluate.max_samples > 0) samples = std::min(samples, options.evaluate.max_samples);
  Progress progress("evaluating", static_cast<std::uint64_t>(samples), "samples");
  options.evaluate.progress = [&](std::int64_t done, std::int64_t) {
    progress.set(static_cast<std::uint64_t>(done));
  };
  const auto result = inference::evaluate(*loaded.model, *dataset, *loaded.tokenizer, loaded.device,
                                          options.evaluate);
  progress.finish();
  print(options, loaded, result);
  return 0;
}

}  // namespace coeus::app
