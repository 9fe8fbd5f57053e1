#include "train/run_directory.h"

#include "base/error.h"
#include "metrics/record.h"

namespace coeus::train {

std::optional<checkpoint::FoundCheckpoint> RunDirectory::find_start(const std::string& resume,
                                                                    Logger& log) const {
  if (resume != "auto" && resume != "never") {
    const auto parent = files::Path(resume).parent_path();
    for (const auto& found : checkpoint::find_checkpoints(parent.empty() ? "." : parent)) {
      if (std::filesystem::equivalent(found.path, resume)) return found;
    }
    throw CheckpointError(fmt::format("run.resume: {} is not a whole checkpoint", resume));
  }
  std::vector<std::string> passed_over;
  const auto found = files::is_directory(checkpoints())
                         ? checkpoint::find_checkpoints(checkpoints(), &passed_over)
                         : std::vector<checkpoint::FoundCheckpoint>{};
  for (const auto& why : passed_over) log.warn("checkpoint passed over: {}", why);
  if (resume == "never") {
    if (!found.empty() || files::exists(path_ / "metrics.jsonl"))
      throw ConfigError(
          fmt::format("run.resume: never, but {} holds a run already; choose another run.directory",
                      path_.string()));
    return std::nullopt;
  }
  if (found.empty()) return std::nullopt;
  return found.back();
}

void RunDirectory::check_resume(const LoadedJob& job, const std::string& tokenizer_hash,
                                Logger& log) const {
  const auto before_file = path_ / "config.resolved.yaml";
  if (!files::exists(before_file)) return;
  const LoadedJob before = parse_job(files::read_text(before_file), before_file.string());
  auto differences = compare_for_resume(before.config, job.config);
  if (files::exists(path_ / "run.json")) {
    const Json run =
        parse_json(files::read_text(path_ / "run.json"), (path_ / "run.json").string());
    if (run.value("tokenizer_hash", tokenizer_hash) != tokenizer_hash)
      differences.forbidden.push_back(fmt::format("tokenizer: hash was {}, is {}",
                                                  run["tokenizer_hash"].get<std::string>(),
                                                  tokenizer_hash));
  }
  if (!differences.forbidden.empty())
    throw ConfigError(
        fmt::format("{} holds a run that differs; use another run.directory, or set back:\n{}",
                    path_.string(), fmt::join(differences.forbidden, "\n")));
  for (const auto& line : differences.allowed) log.info("changed since the last start: {}", line);
  if (!differences.allowed.empty())
    metrics::append_event(path_, "configuration_changed", {{"changes", differences.allowed}});
}

void RunDirectory::write_start(const LoadedJob& job, const Json& stamps) const {
  files::write_atomic(path_ / "config.yaml", job.given);
  files::write_atomic(path_ / "config.resolved.yaml", job.resolved);
  Json run = stamps;
  Json attempts = Json::array();
  if (files::exists(path_ / "run.json")) {
    attempts = parse_json(files::read_text(path_ / "run.json"), (path_ / "run.json").string())
                   .value("attempts", Json::array());
  }
  attempts.push_back({{"started", stamps.value("started", "")},
                      {"git_commit", stamps.value("git_commit", "")},
                      {"layout", stamps.value("layout", "")},
                      {"first_step", stamps.value("first_step", 1)}});
  run["attempts"] = attempts;
  files::write_atomic(path_ / "run.json", run.dump(2) + "\n");
}

}  // namespace coeus::train
