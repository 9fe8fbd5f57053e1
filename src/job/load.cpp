#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "config/reference.h"
#include "config/suggest.h"
#include "config/tree.h"
#include "job/initialize_from.h"
#include "job/job_config.h"
#include "job/locate.h"
#include "job/rules.h"
#include "job/sections.h"

namespace coeus {

using config::Fault;
using config::Report;
using config::Value;

config::Origin job::locate(const Value& tree, std::string path, const Report& report) {
  while (!path.empty()) {
    const Value* value = tree.at_path(path);
    if (value && value->origin) return value->origin;
    const auto dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
  return {report.file, 1, 1};
}

namespace {

constexpr std::uint64_t kMaxBytes = 4 << 20;

// A file beside the one that names it, or a built-in name.
config::Source find_source(const std::string& name, const std::string& from) {
  const files::Path path = files::Path(from).parent_path() / name;
  try {
    if (files::exists(path)) return {path.string(), files::read_text(path, kMaxBytes)};
  } catch (const FileError& e) {
    throw ConfigError(e.what());
  }
  const std::vector<std::string> builtin = builtin_config_names();
  if (std::find(builtin.begin(), builtin.end(), name) != builtin.end()) {
    return {name, builtin_config_text(name)};
  }
  throw ConfigError(fmt::format("'{}' is neither a file nor a built-in configuration{}", name,
                                config::did_you_mean(name, builtin)));
}

config::TreeOptions tree_options() {
  return {.find = find_source,
          .exclusive = {{"training.steps", "training.tokens", "training.epochs"}}};
}

// A key in the wrong section: says where it belongs.
void suggest_other_sections(Report& report) {
  std::vector<config::FieldLine> fields;
  for (Fault& fault : report.faults) {
    if (!fault.unknown_key || fault.message.find("did you mean") != std::string::npos) continue;
    if (fields.empty()) {
      fields = config::list_fields(job::write_tree(JobConfig(), config::Mode::schema));
    }
    const std::string leaf = fault.path.substr(fault.path.rfind('.') + 1);
    for (const config::FieldLine& field : fields) {
      if (!field.path.ends_with("." + leaf)) continue;
      fault.message += "; did you mean " + field.path + "?";
      break;
    }
  }
}

std::string fault_text(Report& report) {
  suggest_other_sections(report);
  std::vector<std::string> files;
  const auto file_rank = [&](const std::string& file) {
    const auto found = std::find(files.begin(), files.end(), file);
    if (found == files.end()) return files.push_back(file), files.size() - 1;
    return static_cast<std::size_t>(found - files.begin());
  };
  for (const Fault& fault : report.faults) file_rank(fault.origin.file);
  std::stable_sort(report.faults.begin(), report.faults.end(), [&](const Fault& a, const Fault& b) {
    return std::tuple(file_rank(a.origin.file), a.origin.line, a.origin.column) <
           std::tuple(file_rank(b.origin.file), b.origin.line, b.origin.column);
  });
  std::vector<std::string> lines;
  for (const Fault& fault : report.faults) lines.push_back(fault.str());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

void read_sections(JobConfig& config, Value& tree, Report& report) {
  config::Slot slot(config::Mode::read, tree, "", nullptr, report);
  job::Sections sections{config};
  config::visit(slot, sections);
}

void check_required(const JobConfig& config, const Value& tree, Report& report) {
  if (!config.model && !report.concerns("model")) {
    report.add({report.file, 1, 1}, "model",
               "is required, as in {name: llama, preset: 3.2-1b}, unless "
               "checkpoint.initialize_from names a folder");
  }
  if (config.tokenizer.path.empty() && !report.concerns("tokenizer")) {
    report.add(job::locate(tree, "tokenizer", report), "tokenizer.path", "is required");
  }
}

void check_all(JobConfig& config, const Value& tree, std::int64_t world_size, Report& report) {
  const std::size_t read_faults = report.faults.size();
  Report before = report;
  before.faults.resize(read_faults);
  const auto add = [&](const std::string& key, std::string message) {
    report.add(job::locate(tree, key, report), key, std::move(message));
  };
  const auto faulty = [&](const std::string& key) { return before.concerns(key); };
  for (auto& fault : job::check_rules(config, faulty)) add(fault.key, std::move(fault.message));
  for (auto& fault : job::check_not_built(config)) {
    if (!faulty(fault.key)) add(fault.key, std::move(fault.message));
  }
  if (world_size == 0 || report.concerns("parallel") || report.concerns("training")) return;
  for (const std::string& fault : check_layout(config, world_size)) {
    const auto colon = fault.find(": ");
    add(fault.substr(0, colon), fault.substr(colon + 2));
  }
}

std::string annotate(const JobConfig& config, const Value& given) {
  const auto note = [&](const std::string& path, const Value&) -> std::string {
    const Value* value = given.at_path(path);
    if (value && value->kind != Value::Kind::null) return value->origin.str();
    if (path.starts_with("model.") && !config.model_preset.empty()) {
      return "preset " + config.model_preset;
    }
    return "default";
  };
  return config::print_tree(job::write_tree(config, config::Mode::write), note);
}

LoadedJob load(const config::Source& source, const std::vector<std::string>& overrides,
               const LoadOptions& options) {
  Report report{.file = source.name};
  const config::TreeOptions tree_opts = tree_options();
  Value tree = config::load_tree(source, tree_opts, report);
  for (const std::string& override : overrides) {
    config::apply_override(tree, override, tree_opts, report);
  }
  if (report.unreadable) throw ConfigError(fault_text(report));
  const Value given = tree;  // reading moves short forms about
  LoadedJob job;
  job.name = source.name;
  job.given = source.text;
  read_sections(job.config, tree, report);
  job::adopt_initial_folder(job.config, given, report, job.warnings);
  check_required(job.config, given, report);
  check_all(job.config, given, options.world_size, report);
  if (!report.faults.empty()) throw ConfigError(fault_text(report));

  if (job.config.tokenizer.path == "byte") check_vocabulary(job.config, 257);
  for (auto& warning : job::rule_warnings(job.config, options.world_size))
    job.warnings.push_back(std::move(warning));
  job.resolved = resolved_text(job.config);
  job.annotated = annotate(job.config, given);
  return job;
}

}  // namespace

LoadedJob load_job(const std::string& config, const std::vector<std::string>& overrides,
                   const LoadOptions& options) {
  return load(find_source(config, ""), overrides, options);
}

LoadedJob parse_job(const std::string& yaml, const std::string& name,
                    const std::vector<std::string>& overrides, const LoadOptions& options) {
  return load({name, yaml}, overrides, options);
}

}  // namespace coeus
