#include "data/tokenizers/pre_tokenizer.h"

#include "base/error.h"

namespace coeus::data {
namespace {

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

PreTokenizer::PreTokenizer(const Json& pre_tokenizer, const std::string& where) {
  if (!pre_tokenizer.is_null()) add(pre_tokenizer, where);
  if (!byte_level_) {
    throw DataError(where + ": pre_tokenizer: only byte-level vocabularies are supported");
  }
}

void PreTokenizer::add(const Json& part, const std::string& where) {
  const std::string type = part.value("type", "");
  if (byte_level_) throw DataError(where + ": pre_tokenizer: " + type + " after ByteLevel");
  if (type == "Sequence") {
    for (const Json& inner : part.at("pretokenizers")) add(inner, where);
  } else if (type == "Split") {
    add_split(part, where);
  } else if (type == "Digits") {
    const bool one_by_one = part.value("individual_digits", false);
    Stage stage;
    stage.pattern.emplace("\\p{N}", where);
    stage.behavior = one_by_one ? Behavior::isolated : Behavior::contiguous;
    stages_.push_back(std::move(stage));
  } else if (type == "ByteLevel") {
    Stage stage;
    stage.prefix_space = part.value("add_prefix_space", true);
    if (part.value("use_regex", true)) stage.pattern.emplace(kGpt2Pattern, where);
    if (stage.pattern || stage.prefix_space) stages_.push_back(std::move(stage));
    byte_level_ = true;
  } else {
    throw DataError(where + ": pre_tokenizer: " + type + " is not supported");
  }
}

void PreTokenizer::add_split(const Json& part, const std::string& where) {
  const Json& pattern = part.at("pattern");
  const std::string behavior = part.value("behavior", "");
  Stage stage;
  if (pattern.contains("Regex")) {
    stage.pattern.emplace(pattern.at("Regex").get<std::string>(), where);
  } else {
    stage.pattern.emplace(quote_pattern(pattern.at("String").get<std::string>()), where);
  }
  if (behavior == "Removed") {
    stage.behavior = Behavior::removed;
  } else if (behavior == "Isolated") {
    stage.behavior = Behavior::isolated;
  } else if (behavior == "MergedWithPrevious") {
    stage.behavior = Behavior::with_previous;
  } else if (behavior == "MergedWithNext") {
    stage.behavior = Behavior::with_next;
  } else if (behavior == "Contiguous") {
    stage.behavior = Behavior::contiguous;
  } else {
    throw DataError(where + ": pre_tokenizer: Split: behavior '" + behavior + "' is not known");
  }
  stage.invert = part.value("invert", false);
  stages_.push_back(std::move(stage));
}

std::string PreTokenizer::description() const {
  std::string text;
  for (const Stage& stage : stages_) {
    text += fmt::format("{}|{}|{}|{};", static_cast<int>(stage.behavior), stage.invert,
                        stage.prefix_space, stage.pattern ? stage.pattern->pattern() : "");
  }
  return text;
}

}  // namespace coeus::data
