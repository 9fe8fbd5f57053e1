#include "job/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "config/suggest.h"

namespace coeus::job {
namespace {

struct ModelKeys {
  ModelConfig& model;
  void describe(config::Fields& f) { model.describe(f); }
};

// The kind is read first: it decides which keys the section has.
struct ModelSection {
  JobConfig& config;

  void describe(config::Fields& f) {
    std::string name = config.model ? config.model->name() : "", preset = config.model_preset;
    if (!f.reading()) preset.clear();  // all keys are written out, so that nothing else is needed
    f("name", name, "kind of model", config::one_of(model_names()));
    f("preset", preset, "a built-in size, or a config.json; the keys beside it override it");
    if (f.reading()) {
      config.model = make_model_config(name);
      if (!config.model) {
        if (!f.has("name")) f.fault("name", "is required, as in {name: llama, preset: 3.2-1b}");
        f.accept_unknown_keys();
        return;
      }
      config.model_preset = preset;
      if (!preset.empty()) apply_preset(f, preset);
    }
    if (config.model) config.model->describe(f);
    if (f.reading()) check(f);
  }

  void apply_preset(config::Fields& f, const std::string& preset) {
    if (config.model->apply_preset(preset)) return;
    const bool is_path =
        preset.find('/') != std::string::npos || preset.ends_with(".json") || files::exists(preset);
    if (!is_path) {
      return f.fault("preset", fmt::format("'{}' is neither a file nor one of {}{}", preset,
                                           fmt::join(config.model->presets(), ", "),
                                           config::did_you_mean(preset, config.model->presets())));
    }
    try {
      const files::Path path =
          files::is_directory(preset) ? files::Path(preset) / "config.json" : files::Path(preset);
      const Json json = parse_json<ConfigError>(files::read_text(path, 1 << 20), path.string());
      config.model->read_hf_config(json, path.string());
    } catch (const Error& e) {
      f.fault("preset", e.what());
    }
  }

  void check(config::Fields& f) const {
    for (const std::string& fault : config.model->check()) {
      const auto colon = fault.find(": ");
      const std::string key = fault.substr(0, colon);
      if (!f.faulty(key)) f.fault(key, fault.substr(colon + 2));
    }
  }
};

}  // namespace

void Sections::describe(config::Fields& f) {
  JobConfig& c = config;
  f("run", c.run, "the run directory and what holds for the whole run");
  if (!f.reading() || f.has("model")) {
    f("model", ModelSection{c}, "what is trained");
  } else {
    f.declare("model");
  }
  f("tokenizer", c.tokenizer, "text to token ids");
  f("data", c.data, "what is trained on");
  f("training", c.training, "how long, in which portions");
  f("parallel", c.parallel, "degrees of the layout and how the ranks share the work");
  f("execution", c.execution, "memory and speed of a step, results unchanged");
  f("precision", c.precision, "number types");
  f("optimizer", c.optimizer, "the optimizer and its groups");
  f("lr_schedule", c.lr_schedule, "learning rate over the steps");
  f("checkpoint", c.checkpoint, "saving, and where to start from");
  f("guards", c.guards, "what happens when something goes wrong");
  f("evaluation", c.evaluation, "loss on held-out text");
  f("metrics", c.metrics, "what is logged where");
  f("comm", c.comm, "how ranks talk to each other");
  f("profile", c.profile, "traces");
  f("plugins", c.plugins, "shared libraries that add models");
}

config::Value write_tree(const JobConfig& config, config::Mode mode) {
  JobConfig copy = config;
  config::Value tree;
  config::Report report;
  config::Slot slot(mode, tree, "", nullptr, report);
  Sections sections{copy};
  config::visit(slot, sections);
  return tree;
}

config::Value write_tree(const ModelConfig& model) {
  const std::unique_ptr<ModelConfig> copy = model.clone();
  config::Value tree;
  config::Report report;
  config::Slot slot(config::Mode::write, tree, "", nullptr, report);
  ModelKeys keys{*copy};
  config::visit(slot, keys);
  return tree;
}

}  // namespace coeus::job
