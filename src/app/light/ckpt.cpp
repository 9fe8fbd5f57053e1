#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/light/commands.h"
#include "app/light/table.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_name.h"

namespace coeus::app {
namespace {

using files::Path;

enum class Output { table, json };
void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2));
}

// A run, its checkpoints folder, or neither (then it is a folder to be opened itself).
std::optional<Path> checkpoints_of(const Path& path) {
  if (!files::is_directory(path)) {
    throw CheckpointError(fmt::format("{}: no such folder", path.string()));
  }
  if (files::is_directory(path / "checkpoints")) return path / "checkpoints";
  for (const auto& name : files::list(path)) {
    if (checkpoint::parse_step_name(name)) return path;
  }
  return std::nullopt;
}

// The step folders under their final names, the faulty ones too.
std::vector<Path> step_folders(const Path& directory) {
  std::vector<Path> folders;
  for (const auto& name : files::list(directory)) {
    const auto parsed = checkpoint::parse_step_name(name);
    if (parsed && !parsed->attempt) folders.push_back(directory / name);
  }
  return folders;
}

int list(const Path& run, Output output) {
  const Path directory = checkpoints_of(run).value_or(run);
  std::vector<std::string> passed_over;
  const auto found = checkpoint::find_checkpoints(directory, &passed_over);
  if (found.empty() && passed_over.empty()) {
    throw CheckpointError(fmt::format("{}: no checkpoints here", directory.string()));
  }
  Json entries = Json::array();
  std::vector<std::vector<std::string>> rows{{"STEP", "SIZE", "FILES", "PATH"}};
  for (const auto& c : found) {
    const auto manifest = checkpoint::Manifest::load(c.path);
    std::uint64_t bytes = 0;
    for (const auto& f : manifest.files) bytes += f.size;
    rows.push_back({std::to_string(c.step), human_bytes(static_cast<double>(bytes)),
                    std::to_string(manifest.files.size()), c.path.string()});
    entries.push_back({{"step", c.step},
                       {"path", c.path.string()},
                       {"bytes", bytes},
                       {"files", manifest.files.size()},
                       {"stamps", manifest.stamps}});
  }
  if (output == Output::json) {
    print_json({{"checkpoints", entries}, {"passed_over", passed_over}});
  } else {
    if (!found.empty()) {
      print_table(rows, {Align::right, Align::right, Align::right, Align::left});
    }
    for (const auto& fault : passed_over) fmt::print("not whole: {}\n", fault);
  }
  const bool faulty = step_folders(directory).size() > found.size();  // an unfinished one is none
  return static_cast<int>(faulty ? ExitCode::checkpoint : ExitCode::finished);
}

Json describe(const checkpoint::TensorInfo& t) {
  return {{"name", t.name}, {"dtype", to_string(t.dtype)}, {"shape", t.shape}};
}

void print_pairs(const std::string& title, const Json& json) {
  if (!json.is_object() || json.empty()) return;
  fmt::print("\n{}\n", title);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : json.items()) {
    rows.push_back({"  " + key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  print_table(rows, {Align::left, Align::left});
}

void print_sets(const checkpoint::Reader& reader) {
  std::vector<std::vector<std::string>> sets{{"SET", "TENSORS", "ELEMENTS", "SIZE"}};
  std::vector<std::vector<std::string>> tensors{{"TENSOR", "DTYPE", "SHAPE"}};
  for (const auto& set : reader.sets()) {
    std::int64_t elements = 0, bytes = 0;
    const auto infos = reader.tensors(set);
    for (const auto& t : infos) {
      elements += t.num_elements();
      bytes += t.num_bytes();
      if (set == "model") {
        tensors.push_back(
            {t.name, to_string(t.dtype), fmt::format("{}", fmt::join(t.shape, " x "))});
      }
    }
    sets.push_back({set, std::to_string(infos.size()), std::to_string(elements),
                    human_bytes(static_cast<double>(bytes))});
  }
  fmt::print("\n");
  print_table(sets, {Align::left, Align::right, Align::right, Align::right});
  fmt::print("\n");
  print_table(tensors, {Align::left, Align::left, Align::left});
}

int show(const Path& path, Output output) {
  Path folder = path;
  if (const auto directory = checkpoints_of(path)) {
    const auto found = checkpoint::find_checkpoints(*directory);
    if (found.empty()) {
      throw CheckpointError(fmt::format("{}: no whole checkpoint here", directory->string()));
    }
    folder = found.back().path;
  }
  const auto reader = checkpoint::Reader::open(folder);
  const Json manifest = reader.manifest().value_or(Json::object());
  const Json state = reader.train_state().value_or(Json::object());
  const Json stamps = manifest.value("stamps", Json::object());
  if (output == Output::table) {
    fmt::print("{}\n", folder.string());
    print_pairs("train_state.json", state);
    print_pairs("manifest.json", stamps);
    print_pairs("config.json", reader.config());
    print_sets(reader);
    return 0;
  }
  Json sets = Json::object();
  for (const auto& set : reader.sets()) {
    for (const auto& t : reader.tensors(set)) sets[set].push_back(describe(t));
  }
  print_json({{"path", folder.string()},
              {"train_state", state},
              {"stamps", stamps},
              {"config", reader.config()},
              {"sets", sets}});
  return 0;
}

// The folder itself, or every checkpoint of a run.
std::vector<Path> folders_to_verify(const Path& path) {
  const auto directory = checkpoints_of(path);
  if (!directory) return {path};
  auto folders = step_folders(*directory);
  if (folders.empty()) {
    throw CheckpointError(fmt::format("{}: no whole checkpoint here", directory->string()));
  }
  return folders;
}

int verify(const Path& path, Output output) {
  Json entries = Json::array();
  std::vector<std::vector<std::string>> rows{{"RESULT", "FILES", "RUNS", "SIZE", "PATH"}};
  std::vector<std::string> faults;
  for (const auto& folder : folders_to_verify(path)) {
    const auto report = checkpoint::verify(folder);
    rows.push_back({report.faults.empty() ? "good" : "FAULTY", std::to_string(report.files),
                    std::to_string(report.runs), human_bytes(static_cast<double>(report.bytes)),
                    folder.string()});
    for (const auto& f : report.faults) {
      faults.push_back(f.starts_with(folder.string()) ? f : (folder / f).string());
    }
    entries.push_back({{"path", folder.string()},
                       {"files", report.files},
                       {"runs", report.runs},
                       {"bytes", report.bytes},
                       {"faults", report.faults}});
  }
  if (output == Output::json) {
    print_json(entries);
  } else {
    print_table(rows, {Align::left, Align::right, Align::right, Align::right, Align::left});
    for (const auto& f : faults) fmt::print("{}\n", f);
  }
  return static_cast<int>(faults.empty() ? ExitCode::finished : ExitCode::checkpoint);
}

}  // namespace

int ckpt(const Arguments& arguments) {
  CLI::App app{"Looks at checkpoints; needs no GPU", "coeus ckpt"};
  app.require_subcommand(1);
  std::string path;
  bool json = false;
  struct Verb {
    const char *name, *help, *path_name, *path_help;
    int (*run)(const Path&, Output);
  };
  const Verb verbs[] = {
      {"ls", "lists a run's checkpoints", "RUN", "run or checkpoints folder", list},
      {"show", "what a checkpoint holds", "PATH", "run (its newest), step or Hugging Face folder",
       show},
      {"verify", "hashes every byte of a checkpoint", "PATH",
       "run (all of its checkpoints), step or Hugging Face folder", verify}};
  for (const auto& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    sub->add_option(verb.path_name, path, verb.path_help)->required();
    sub->add_flag("--json", json, "print JSON");
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    throw UsageError(fmt::format("coeus ckpt: {}", e.what()));
  }
  for (const auto& verb : verbs) {
    if (app.got_subcommand(verb.name)) return verb.run(path, json ? Output::json : Output::table);
  }
  return static_cast<int>(ExitCode::usage);
}

}  // namespace coeus::app
