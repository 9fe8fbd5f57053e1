#include <fmt/format.h>

#include <algorithm>

#include "config/tree.h"
#include "job/job_config.h"
#include "job/sections.h"

namespace coeus {
namespace {

using config::Value;

// What decides which numbers a run computes from which data. The tokenizer counts by its hash,
// which train compares: a path may move.
constexpr const char* kMustBeEqual[] = {
    "model",        "data.sources",         "data.text_key",      "data.bos", "data.eos",
    "data.packing", "data.sequence_length", "evaluation.holdout", "run.seed", "optimizer.name"};
// Where things lie is no difference of the run.
constexpr const char* kNotCompared[] = {"run.directory", "run.cache", "run.resume"};

template <std::size_t N>
bool is_among(const std::string& path, const char* const (&keys)[N]) {
  return std::any_of(std::begin(keys), std::end(keys), [&](const std::string& key) {
    return path == key || path.starts_with(key + ".");
  });
}

}  // namespace

ResumeDifferences compare_for_resume(const JobConfig& before, const JobConfig& now) {
  const Value old_tree = job::write_tree(before, config::Mode::write);
  const Value new_tree = job::write_tree(now, config::Mode::write);
  ResumeDifferences differences;
  const auto compare = [&](const std::string& path, const Value* was, const Value* is) {
    const std::string a = was ? config::print_inline(*was) : "absent";
    const std::string b = is ? config::print_inline(*is) : "absent";
    if (a == b || is_among(path, kNotCompared)) return;
    auto& list = is_among(path, kMustBeEqual) ? differences.forbidden : differences.allowed;
    list.push_back(fmt::format("{}: was {}, is {}", path, a, b));
  };
  config::for_each_leaf(new_tree, [&](const std::string& path, const Value& value) {
    compare(path, old_tree.at_path(path), &value);
  });
  config::for_each_leaf(old_tree, [&](const std::string& path, const Value& value) {
    if (!new_tree.at_path(path)) compare(path, &value, nullptr);
  });
  return differences;
}

}  // namespace coeus
