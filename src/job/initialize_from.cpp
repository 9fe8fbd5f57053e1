#include "job/initialize_from.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "config/tree.h"
#include "job/locate.h"
#include "job/sections.h"

namespace coeus::job {
namespace {

constexpr const char* kKey = "checkpoint.initialize_from";

std::unique_ptr<ModelConfig> read_model(const files::Path& folder) {
  const files::Path path = folder / "config.json";
  const Json json = parse_json<ConfigError>(files::read_text(path, 1 << 20), path.string());
  return model_config_from_hf(json, path.string());
}

void compare_models(JobConfig& config, const ModelConfig& theirs, const std::string& where,
                    const config::Value& tree, config::Report& report) {
  if (config.model->name() != theirs.name()) {
    return report.add(
        locate(tree, "model.name", report), "model.name",
        fmt::format("is {}, but {} holds a {}", config.model->name(), where, theirs.name()));
  }
  if (config.model->vocab_size() == 0) config.model->set_vocab_size(theirs.vocab_size());
  const config::Value ours = write_tree(*config.model), other = write_tree(theirs);
  config::for_each_leaf(ours, [&](const std::string& key, const config::Value& value) {
    const config::Value* given = other.at_path(key);
    const std::string mine = config::print_inline(value);
    const std::string their = given ? config::print_inline(*given) : "absent";
    if (mine == their) return;
    const std::string path = "model." + key;
    report.add(locate(tree, path, report), path,
               fmt::format("is {}, but {} has {}", mine, where, their));
  });
}

std::string tokenizer_text(const files::Path& path) {
  const files::Path file = files::is_directory(path) ? path / "tokenizer.json" : path;
  return files::exists(file) ? files::read_text(file) : "";
}

void adopt_tokenizer(JobConfig& config, const files::Path& folder, const config::Value& tree,
                     config::Report& report) {
  const std::string theirs = tokenizer_text(folder);
  if (config.tokenizer.path.empty()) {
    if (theirs.empty()) {
      report.add(locate(tree, kKey, report), "tokenizer.path",
                 fmt::format("is required: {} holds no tokenizer.json", folder.string()));
    }
    config.tokenizer.path = folder.string();
    return;
  }
  // the byte tokenizer has no file; train compares hashes once it has loaded either
  const std::string ours = tokenizer_text(config.tokenizer.path);
  if (ours.empty() || theirs.empty() || ours == theirs) return;
  report.add(
      locate(tree, "tokenizer.path", report), "tokenizer.path",
      fmt::format("{} differs from the tokenizer of {}", config.tokenizer.path, folder.string()));
}

}  // namespace

void adopt_initial_folder(JobConfig& config, const config::Value& tree, config::Report& report,
                          std::vector<std::string>& warnings) {
  if (!config.checkpoint.initialize_from) return;
  const files::Path folder = *config.checkpoint.initialize_from;
  const bool complete = config.model && !config.tokenizer.path.empty();
  if (!files::exists(folder / "config.json")) {
    const std::string message = fmt::format("there is no {}", (folder / "config.json").string());
    if (!complete) return report.add(locate(tree, kKey, report), kKey, message);
    warnings.push_back(fmt::format("{}: {}", kKey, message));
    return;
  }
  try {
    std::unique_ptr<ModelConfig> theirs = read_model(folder);
    if (!config.model && !report.concerns("model")) {
      config.model = std::move(theirs);
      config.model_preset = folder.string();
    } else if (config.model && !report.concerns("model")) {
      compare_models(config, *theirs, (folder / "config.json").string(), tree, report);
    }
    adopt_tokenizer(config, folder, tree, report);
  } catch (const Error& e) {
    report.add(locate(tree, kKey, report), kKey, e.what());
  }
}

}  // namespace coeus::job
