#include "estimate/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>

#include "app/light/commands.h"
#include "app/light/table.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "layout/schedule/svg.h"

namespace coeus::app {
namespace {

using estimate::Explanation;
using estimate::RankExplanation;
using estimate::StageExplanation;

enum class Output { table, json };
struct ExplainArguments {
  std::string config, svg;
  std::vector<std::string> overrides;
  std::int64_t gpus = 0;  // 0: not said
  Output output = Output::table;
};

std::int64_t parse_gpus(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) {
    throw UsageError(fmt::format("--gpus: '{}' is not a number of ranks", text));
  }
  return number;
}

// `--flag VALUE` or `--flag=VALUE`: the value, else nothing.
std::optional<std::string> take_value(const Arguments& words, std::size_t& at,
                                      const std::string& flag) {
  if (words[at].starts_with(flag + "=")) return words[at].substr(flag.size() + 1);
  if (words[at] != flag) return std::nullopt;
  if (++at == words.size()) throw UsageError(flag + ": a value is missing");
  return words[at];
}

ExplainArguments parse(const Arguments& words) {
  ExplainArguments parsed;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--json") {
      parsed.output = Output::json;
    } else if (const auto file = take_value(words, at, "--svg")) {
      parsed.svg = *file;
    } else if (const auto number = take_value(words, at, "--gpus")) {
      parsed.gpus = parse_gpus(*number);
    } else if (word.find('=') != std::string::npos) {
      parsed.overrides.push_back(word);
    } else if (word.starts_with("-")) {
      throw UsageError(fmt::format("{}: unknown flag; there are --gpus, --json, --svg", word));
    } else if (!parsed.config.empty()) {
      throw UsageError(fmt::format("{}: after the configuration come key.sub=value", word));
    } else {
      parsed.config = word;
    }
  }
  if (parsed.config.empty()) throw UsageError("explain: name a file or a built-in configuration");
  return parsed;
}

std::string layers_text(const StageExplanation& stage) {
  return stage.first_layer == stage.last_layer
             ? stage.first_layer
             : fmt::format("{} to {}", stage.first_layer, stage.last_layer);
}

void print_summary(const Explanation& e) {
  fmt::print("{}: {} parameters; {}{}\n", e.model, e.num_parameters, e.layout,
             e.num_ranks == 1 ? "" : fmt::format(" = {} ranks", e.num_ranks));
  fmt::print("{}: {} stages, {} micro-batches of {} tokens a step, {}; {:.1f}% idle\n",
             e.simulation.schedule, e.simulation.num_stages, e.num_micro_batches,
             e.micro_batch_tokens,
             e.delays_weights ? "weight gradients delayed" : "weight gradients at once",
             100 * e.simulation.bubble_share());
}

void print_text(const Explanation& e) {
  print_summary(e);
  std::vector<std::vector<std::string>> stages{
      {"PP RANK", "STAGE", "LAYERS", "PARAMETERS", "GFLOP/TOKEN"}};
  for (std::size_t r = 0; r < e.pipeline_ranks.size(); ++r) {
    for (const auto& stage : e.pipeline_ranks[r].stages) {
      stages.push_back({std::to_string(r), std::to_string(stage.stage), layers_text(stage),
                        std::to_string(stage.num_parameters),
                        fmt::format("{:.3f}", stage.flops_per_token.total() * 1e-9)});
    }
  }
  fmt::print("\n");
  print_table(stages, {Align::right, Align::right, Align::left, Align::right, Align::right});

  std::vector<std::vector<std::string>> ranks{{"PP RANK", "WEIGHTS", "GRADIENTS", "MASTER",
                                               "MOMENTS", "TOTAL", "IDLE", "HELD F-B", "HELD F-W"}};
  for (std::size_t r = 0; r < e.pipeline_ranks.size(); ++r) {
    const RankExplanation& rank = e.pipeline_ranks[r];
    std::vector<std::string> row{std::to_string(r)};
    const auto& m = rank.memory;
    for (const std::int64_t bytes : {m.weights, m.gradients, m.master, m.moments, m.total()}) {
      row.push_back(human_bytes(static_cast<double>(bytes)));
    }
    row.push_back(fmt::format("{:.1f}%", 100 * rank.bubble));
    row.push_back(fmt::format("{:.4g}", rank.peak_forward_to_backward));
    row.push_back(fmt::format("{:.4g}", rank.peak_forward_to_weight));
    ranks.push_back(std::move(row));
  }
  fmt::print("\n");
  print_table(ranks, std::vector<Align>(ranks[0].size(), Align::right));
  fmt::print(
      "\nmemory without activations; held: micro-batches from forward to backward and to weight "
      "gradients, at most\n");
  for (const auto& note : e.notes) fmt::print("{}\n", note);
}

Json to_json(const StageExplanation& stage) {
  return {{"stage", stage.stage},
          {"first_layer", stage.first_layer},
          {"last_layer", stage.last_layer},
          {"parameters", stage.num_parameters},
          {"flops_per_token",
           {{"forward", stage.flops_per_token.forward},
            {"backward", stage.flops_per_token.backward},
            {"weight", stage.flops_per_token.weight}}}};
}

Json to_json(const RankExplanation& rank) {
  Json json{{"stages", Json::array()}, {"parameters", rank.num_parameters}};
  for (const auto& stage : rank.stages) json["stages"].push_back(to_json(stage));
  const auto& m = rank.memory;
  json["memory_bytes"] = {{"weights", m.weights},
                          {"gradients", m.gradients},
                          {"master", m.master},
                          {"moments", m.moments},
                          {"total", m.total()}};
  json["bubble"] = rank.bubble;
  json["peak_forward_to_backward"] = rank.peak_forward_to_backward;
  json["peak_forward_to_weight"] = rank.peak_forward_to_weight;
  return json;
}

void print_json(const Explanation& e) {
  Json json{{"model", e.model},
            {"layout", e.layout},
            {"ranks", e.num_ranks},
            {"parameters", e.num_parameters},
            {"schedule", e.simulation.schedule},
            {"stages", e.simulation.num_stages},
            {"micro_batches", e.num_micro_batches},
            {"micro_batch_tokens", e.micro_batch_tokens},
            {"delays_weights", e.delays_weights},
            {"bubble", e.simulation.bubble_share()},
            {"pipeline_ranks", Json::array()},
            {"notes", e.notes}};
  for (const auto& rank : e.pipeline_ranks) json["pipeline_ranks"].push_back(to_json(rank));
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

int explain(const Arguments& arguments) {
  const ExplainArguments parsed = parse(arguments);
  const LoadedJob job = load_job(parsed.config, parsed.overrides, {.world_size = parsed.gpus});
  for (const std::string& warning : job.warnings) {
    std::fputs(fmt::format("coeus: warning: {}\n", warning).c_str(), stderr);
  }
  const std::int64_t world =
      parsed.gpus > 0 ? parsed.gpus : estimate::smallest_world(job.config.parallel);
  const Explanation explanation = estimate::explain(job.config, world);
  if (!parsed.svg.empty()) files::write_text(parsed.svg, draw_svg(explanation.simulation));
  if (parsed.output == Output::json) {
    print_json(explanation);
  } else {
    print_text(explanation);
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace coeus::app
