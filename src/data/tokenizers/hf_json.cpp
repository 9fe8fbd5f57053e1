#include "data/tokenizers/hf_json.h"

#include "base/error.h"
#include "data/tokenizers/byte_alphabet.h"

namespace coeus::data {
namespace {

constexpr std::int64_t kMaxIds = std::int64_t{1} << 24;  // no vocabulary is near it

struct Reader {
  const std::string& where;

  [[noreturn]] void fail(const std::string& what) const { throw DataError(where + ": " + what); }

  const Json& member(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) fail(std::string("no key '") + key + "'");
    return object.at(key);
  }

  std::int32_t id(const Json& value, const std::string& of) const {
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                      value.get<std::int64_t>() < kMaxIds;
    if (!fits) fail("the id of '" + of + "' is not a number from 0 to " + std::to_string(kMaxIds));
    return value.get<std::int32_t>();
  }

  // Anything that would change ids and is not built here must be at its off value.
  void require_off(const Json& model, const char* key) const {
    if (!model.contains(key)) return;
    const Json& value = model.at(key);
    const bool off = value.is_null() || value == false || value == "" ||
                     (value.is_number() && value.get<double>() == 0);
    if (!off) fail(std::string("model.") + key + ": " + value.dump() + " is not supported");
  }

  void vocabulary(const Json& model, HfDescription& into) const {
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object()) fail("model.vocab is not a map");
    into.vocabulary.reserve(vocab.size());
    for (const auto& [spelling, value] : vocab.items()) {
      const std::int32_t number = id(value, spelling);
      if (auto bytes = read_spelling(spelling)) {
        into.vocabulary.emplace(std::move(*bytes), number);
      } else {
        into.unspelled.emplace_back(number, spelling);
      }
    }
  }

  std::int32_t lookup(const Vocabulary& vocabulary, std::string_view bytes,
                      std::size_t line) const {
    const auto found = vocabulary.find(bytes);
    if (found == vocabulary.end()) {
      fail(fmt::format("merge {} names '{}', which is not in the vocabulary", line,
                       spell_bytes(bytes)));
    }
    return found->second;
  }

  // "a b", or ["a", "b"].
  std::pair<std::string, std::string> pair(const Json& merge, std::size_t line) const {
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos) fail(fmt::format("merge {} is not a pair", line));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      fail(fmt::format("merge {} is not a pair", line));
    }
    auto left_bytes = read_spelling(left), right_bytes = read_spelling(right);
    if (!left_bytes || !right_bytes) {
      fail(fmt::format("merge {} is outside the byte alphabet: not a byte-level vocabulary", line));
    }
    return {std::move(*left_bytes), std::move(*right_bytes)};
  }

  void merges(const Json& model, HfDescription& into) const {
    const Json& list = member(model, "merges");
    if (!list.is_array()) fail("model.merges is not a list");
    into.merges.reserve(list.size());
    for (std::size_t line = 0; line < list.size(); ++line) {
      const auto [left, right] = pair(list[line], line);
      into.merges.push_back({lookup(into.vocabulary, left, line),
                             lookup(into.vocabulary, right, line),
                             lookup(into.vocabulary, left + right, line)});
    }
  }

  void added_tokens(const Json& root, HfDescription& into) const {
    if (!root.contains("added_tokens") || root.at("added_tokens").is_null()) return;
    for (const Json& token : root.at("added_tokens")) {
      const std::string content = member(token, "content").get<std::string>();
      if (content.empty()) continue;  // Hugging Face leaves it out as well
      if (token.value("single_word", false)) {
        fail("added token '" + content + "': single_word is not supported");
      }
      into.added.push_back({.id = id(member(token, "id"), content),
                            .content = content,
                            .special = token.value("special", false),
                            .left_strip = token.value("lstrip", false),
                            .right_strip = token.value("rstrip", false),
                            .normalized = token.value("normalized", false)});
    }
  }

  void normalizer(const Json& root) const {
    if (!root.contains("normalizer") || root.at("normalizer").is_null()) return;
    const Json& part = root.at("normalizer");
    const std::string type = part.value("type", "");
    if (type == "Sequence" && part.value("normalizers", Json::array()).empty()) return;
    fail("normalizer: " + type + " is not supported");
  }

  void decoder(const Json& root) const {
    const Json part = root.contains("decoder") ? root.at("decoder") : Json();
    const std::string type = part.is_object() ? part.value("type", "") : "none";
    if (type != "ByteLevel") fail("decoder: " + type + " is not supported, only ByteLevel");
  }
};

}  // namespace

HfDescription read_hf_description(const std::string& text, const std::string& where) {
  const Reader read{where};
  const Json root = parse_json<DataError>(text, where);
  HfDescription description;
  try {
    const Json& model = read.member(root, "model");
    if (!model.is_object()) read.fail("model is not a map");
    const std::string type = model.value("type", "BPE");
    if (type != "BPE") read.fail("model.type: " + type + " is not supported, only BPE");
    for (const char* key :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      read.require_off(model, key);
    }
    read.normalizer(root);
    read.decoder(root);
    read.vocabulary(model, description);
    read.merges(model, description);
    read.added_tokens(root, description);
    if (model.contains("ignore_merges") && model.at("ignore_merges") == true) {
      description.whole_words = WholeWords::look_up;
    }
    description.pre_tokenizer = root.contains("pre_tokenizer") ? root.at("pre_tokenizer") : Json();
    description.rest["post_processor"] =
        root.contains("post_processor") ? root.at("post_processor") : Json();
  } catch (const Json::exception& e) {
    read.fail(e.what());
  }
  return description;
}

}  // namespace coeus::data
