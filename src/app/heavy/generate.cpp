#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/heavy/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "inference/decode.h"
#include "inference/load.h"
#include "train/registry.h"

namespace coeus::app {
namespace {

using inference::LoadedModel;

struct Options {
  std::string path, prompt;
  inference::GenerateOptions generate{.sampling = {.temperature = 0.8}};
  bool json = false;
};

std::vector<std::int64_t> encode(const LoadedModel& loaded, const std::string& prompt) {
  std::vector<std::int64_t> tokens;
  if (loaded.tokenizer->adds_bos() && loaded.tokenizer->bos_id()) {
    tokens.push_back(*loaded.tokenizer->bos_id());
  }
  for (std::int32_t id : loaded.tokenizer->encode(prompt)) tokens.push_back(id);
  if (tokens.empty()) throw UsageError("--prompt has no tokens: there is nothing to continue");
  return tokens;
}

void check_length(const LoadedModel& loaded, std::int64_t prompt, std::int64_t max_tokens) {
  if (max_tokens < 1) throw UsageError("--max-tokens must be 1 or more");
  if (loaded.max_positions > 0 && max_tokens > loaded.max_positions - prompt) {
    throw UsageError(fmt::format(
        "the prompt's {} tokens and --max-tokens {} are more than the {} positions of the model",
        prompt, max_tokens, loaded.max_positions));
  }
}

// Prints text as its tokens come. A character may span several: until it is whole, the text ends in
// the replacement character.
class Printer {
 public:
  explicit Printer(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(std::int64_t token) {
    constexpr std::size_t kMostHeldBack = 8;
    pending_.push_back(static_cast<std::int32_t>(token));
    const std::string text = tokenizer_.decode(pending_);
    if (text.ends_with("\uFFFD") && pending_.size() < kMostHeldBack) return;
    print(text);
    pending_.clear();
  }
  void finish() { print(tokenizer_.decode(pending_) + "\n"); }

 private:
  static void print(const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  const data::Tokenizer& tokenizer_;
  std::vector<std::int32_t> pending_;
};

Options parse(const Arguments& arguments) {
  Options options;
  auto& sampling = options.generate.sampling;
  CLI::App cli{"", "coeus generate"};
  cli.set_help_flag();
  cli.add_option("PATH", options.path)->required();
  cli.add_option("--prompt", options.prompt)->required();
  cli.add_option("--max-tokens", options.generate.max_tokens);
  cli.add_option("--temperature", sampling.temperature);
  cli.add_option("--top-k", sampling.top_k);
  cli.add_option("--top-p", sampling.top_p);
  cli.add_option("--seed", sampling.seed);
  cli.add_flag("--json", options.json);
  try {
    cli.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    throw UsageError(fmt::format("coeus generate: {}", e.what()));
  }
  inference::check(sampling);
  return options;
}

}  // namespace

int generate(const Arguments& arguments) {
  const auto build_model = [models = builtin_registry()](const ModelConfig& config) {
    return models.build_model(config);
  };
  Options options = parse(arguments);
  LoadedModel loaded =
      inference::load_model(options.path, build_model, inference::default_device());
  const auto prompt = encode(loaded, options.prompt);
  const auto prompt_size = static_cast<std::int64_t>(prompt.size());
  check_length(loaded, prompt_size, options.generate.max_tokens);
  options.generate.stop_token = loaded.tokenizer->eos_id();
  options.generate.vocab_size = loaded.tokenizer->vocab_size();
  inference::KvCache cache(*loaded.model, prompt_size + options.generate.max_tokens);
  if (options.json) {
    const auto tokens = inference::generate(cache, prompt, options.generate, loaded.device);
    const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
    const Json json = {{"path", loaded.folder.string()},
                       {"prompt", options.prompt},
                       {"text", loaded.tokenizer->decode(ids)},
                       {"tokens", tokens}};
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}", options.prompt);
  Printer printer(*loaded.tokenizer);
  inference::generate(cache, prompt, options.generate, loaded.device,
                      [&](std::int64_t token) { printer.add(token); });
  printer.finish();
  return 0;
}

}  // namespace coeus::app
