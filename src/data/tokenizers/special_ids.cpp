#include "data/tokenizers/special_ids.h"

#include <map>

#include "base/error.h"

namespace coeus::data {
namespace {

using IdOf = std::function<std::optional<std::int32_t>(std::string_view)>;

// "bos_token": "<s>" or {"content": "<s>", …}
std::optional<std::int32_t> id_of_entry(const Json& config, const char* key, const IdOf& id_of) {
  if (!config.contains(key)) return std::nullopt;
  const Json& entry = config.at(key);
  if (entry.is_string()) return id_of(entry.get_ref<const std::string&>());
  if (entry.is_object()) return id_of(entry.value("content", ""));
  return std::nullopt;
}

// "eos_token_id": 2 or [2, 32000]
std::optional<std::int32_t> number_of_entry(const Json& config, const char* key) {
  if (!config.contains(key)) return std::nullopt;
  const Json& entry = config.at(key);
  const Json& id = entry.is_array() && !entry.empty() ? entry.front() : entry;
  if (!id.is_number_integer()) return std::nullopt;
  return id.get<std::int32_t>();
}

// The token that a template puts before a single text.
std::optional<std::string> first_of_template(const Json& processor, const std::string& where) {
  if (processor.is_null()) return std::nullopt;
  const std::string type = processor.value("type", "");
  if (type == "ByteLevel") return std::nullopt;
  if (type == "Sequence") {
    for (const Json& inner : processor.at("processors")) {
      if (const auto found = first_of_template(inner, where)) return found;
    }
    return std::nullopt;
  }
  if (type != "TemplateProcessing") {
    throw DataError(where + ": post_processor: " + type + " is not supported");
  }
  const Json& single = processor.at("single");
  if (single.empty() || !single.front().contains("SpecialToken")) return std::nullopt;
  return single.front().at("SpecialToken").at("id").get<std::string>();
}

}  // namespace

SpecialIds find_special_ids(const std::vector<std::pair<std::string, std::string>>& files,
                            const Json& tokenizer, const IdOf& id_of, const std::string& where) {
  std::map<std::string, Json> configs;
  for (const auto& [name, text] : files) {
    if (name.ends_with("config.json")) configs[name] = parse_json<DataError>(text, name);
  }
  SpecialIds ids;
  const Json& own = configs["tokenizer_config.json"];
  ids.bos = id_of_entry(own, "bos_token", id_of);
  ids.eos = id_of_entry(own, "eos_token", id_of);
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!ids.bos) ids.bos = number_of_entry(configs[name], "bos_token_id");
    if (!ids.eos) ids.eos = number_of_entry(configs[name], "eos_token_id");
  }
  const Json processor =
      tokenizer.contains("post_processor") ? tokenizer.at("post_processor") : Json();
  if (const auto first = first_of_template(processor, where)) {
    ids.bos = id_of(*first);
    ids.adds_bos = ids.bos.has_value();
  }
  if (own.contains("add_bos_token") && own.at("add_bos_token").is_boolean()) {
    ids.adds_bos = own.at("add_bos_token").get<bool>() && ids.bos.has_value();
  }
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>"}) {
    if (!ids.eos) ids.eos = id_of(name);
  }
  return ids;
}

}  // namespace coeus::data
