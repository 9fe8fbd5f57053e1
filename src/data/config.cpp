#include "data/config.h"

#include "coeus/config/fields.h"

namespace coeus {

using namespace config;

std::span<const EnumName<Packing>> enum_names(Packing) {
  static constexpr EnumName<Packing> kNames[] = {
      {Packing::concat, "concat"}, {Packing::documents, "documents"}, {Packing::pad, "pad"}};
  return kNames;
}

std::span<const EnumName<BosPolicy>> enum_names(BosPolicy) {
  static constexpr EnumName<BosPolicy> kNames[] = {
      {BosPolicy::automatic, "auto"}, {BosPolicy::on, "on"}, {BosPolicy::off, "off"}};
  return kNames;
}

void TokenizerConfig::describe(Fields& f) {
  f("path", path, "a tokenizer.json, a folder that holds one, or the word byte");
}

void SourceConfig::describe(Fields& f) {
  f.short_form("path").origin(where);
  f("path", path, "file or glob, read in sorted order", required())(
      "weight", weight, "share of the tokens", above(0))("repeats", repeats,
                                                         "passes over this source", above(0));
}

void DataConfig::describe(Fields& f) {
  f("sources", single_or_list(sources), "what is trained on: a path, paths, or maps", required())(
      "text_key", text_key, "field of a JSONL line that holds the text", not_empty())(
      "bos", bos, "a begin token before each document; auto: as the tokenizer says")(
      "eos", eos, "an end token after each document")("sequence_length", sequence_length,
                                                      "tokens of a sample", at_least(1))(
      "packing", packing, "concat: one stream; documents: documents do not see each other")(
      "threads", threads, "reader threads of a rank", between(1, 1024));
}

void EvaluationConfig::describe(Fields& f) {
  f("every", every, "steps between evaluations; 0: never", at_least(0))(
      "sources", single_or_list(sources), "held-out text: a path, paths, or maps")(
      "holdout", holdout, "fraction of the training documents held out instead",
      from_up_to_below(0, 1))("steps", steps, "global batches of one evaluation", at_least(1));
}

}  // namespace coeus
