#include "data/tokenizer.h"

#include <thread>

#include "base/json.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/byte_alphabet.h"
#include "data/tokenizers/regex.h"
#include "data/utf8.h"
#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

using Ids = std::vector<std::int32_t>;

// All bytes, then the merges' results in their order; GPT-2's own pattern.
Json small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object(), list = Json::array();
  for (int b = 0; b < 256; ++b) vocab[spell_bytes(std::string(1, static_cast<char>(b)))] = b;
  for (const auto& [left, right] : merges) {
    const int next = static_cast<int>(vocab.size());
    vocab[spell_bytes(left + right)] = next;
    list.push_back(spell_bytes(left) + " " + spell_bytes(right));
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

Json added(int id, const std::string& content, const std::string& on = "") {
  Json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  if (!on.empty()) token[on] = true;
  return token;
}

std::shared_ptr<const Tokenizer> load(const Folder& folder, const Json& json) {
  folder.write("tokenizer.json", json.dump());
  return load_tokenizer(folder / "");
}

TEST(ByteTokenizer, GivesEachByteItsOwnIdAndBack) {
  const auto tokenizer = load_tokenizer("byte");
  std::string text = "a\tZ ~\n\r";
  text += '\0';
  text += "é中😀";
  const Ids ids = tokenizer->encode(text);
  ASSERT_EQ(ids.size(), text.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<unsigned char>(text[i]));
  }
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->eos_id(), 256);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(ByteTokenizer, FindsTheEndOfTextTokenInTextAndLeavesItOutOfDecodedText) {
  const auto tokenizer = load_tokenizer("byte");
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>b"), (Ids{'a', 256, 'b'}));
  EXPECT_EQ(tokenizer->decode({'a', 256, 'b'}), "ab");
}

TEST(ByteTokenizer, IsReadBackFromTheFilesItWritesWithTheSameHash) {
  const Folder folder;
  const auto tokenizer = load_tokenizer("byte");
  for (const auto& [name, text] : tokenizer->files()) folder.write(name, text);
  const auto again = load_tokenizer(folder / "");
  EXPECT_EQ(again->hash(), tokenizer->hash());
  EXPECT_EQ(again->files(), tokenizer->files());
  EXPECT_EQ(again->eos_id(), 256);
}

TEST(ByteTokenizer, DecodesBytesThatAreNoTextAsTheReplacementCharacter) {
  EXPECT_EQ(load_tokenizer("byte")->decode({'a', 0xFF, 0xE4, 0xB8, 'b'}), "a\uFFFD\uFFFDb");
}

TEST(ByteTokenizer, RefusesTextThatIsNotUtf8) {
  const auto what = message_of<DataError>([] { load_tokenizer("byte")->encode("ab\xFF"); });
  EXPECT_NE(what.find("byte 2"), std::string::npos) << what;
}

TEST(BytePairEncoding, MergesTheLowestRankFirstAndOfEqualRanksTheLeftmost) {
  const Folder folder;
  const auto t = load(folder, small_tokenizer({{"b", "c"}, {"a", "b"}, {"a", "a"}}));
  EXPECT_EQ(t->encode("abc"), (Ids{'a', 256}));
  EXPECT_EQ(t->encode("abab"), (Ids{257, 257}));
  EXPECT_EQ(t->encode("aaa"), (Ids{258, 'a'}));
}

TEST(BytePairEncoding, MergesLongAndShortWordsAlike) {
  // The plain rule, written without any of the tables that are tested.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"a", "a"}, {"ba", "b"}, {"abab", "aa"}};
  Vocabulary vocabulary;
  std::vector<Merge> rules;
  for (int b = 0; b < 256; ++b) vocabulary[std::string(1, static_cast<char>(b))] = b;
  for (const auto& [left, right] : merges) {
    const auto id = static_cast<std::int32_t>(vocabulary.size());
    vocabulary[left + right] = id;
    rules.push_back({vocabulary[left], vocabulary[right], id});
  }
  const BytePairs pairs(vocabulary, rules, WholeWords::merge);
  BytePairs::Scratch scratch;
  std::uint64_t seed = 1;
  for (std::size_t length = 1; length < 300; length += 7) {
    std::string word;
    while (word.size() < length) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      word += seed >> 40 & 1 ? 'a' : 'b';
    }
    Ids expected(word.begin(), word.end());
    for (bool changed = true; changed;) {
      changed = false;
      for (const Merge& rule : rules) {
        for (std::size_t i = 0; i + 1 < expected.size() && !changed; ++i) {
          if (expected[i] != rule.left || expected[i + 1] != rule.right) continue;
          expected[i] = rule.merged;
          expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          changed = true;
        }
        if (changed) break;
      }
    }
    Ids ids;
    ASSERT_TRUE(pairs.encode(word, scratch, ids));
    EXPECT_EQ(ids, expected) << word;
  }
}

TEST(BytePairEncoding, LooksWholeWordsUpOnlyWhenMergesAreIgnored) {
  const Folder folder;
  Json json = small_tokenizer({{"a", "b"}, {"b", "c"}});
  json["model"]["vocab"]["abc"] = 258;
  EXPECT_EQ(load(folder, json)->encode("abc"), (Ids{256, 'c'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(load(folder, json)->encode("abc"), (Ids{258}));
}

TEST(BytePairEncoding, TakesMergesAsPairs) {
  const Folder folder;
  Json json = small_tokenizer({{"a", "b"}});
  const auto as_text = load(folder, json);
  json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  const auto as_pairs = load(folder, json);
  EXPECT_EQ(as_pairs->encode("abab"), (Ids{256, 256}));
  EXPECT_EQ(as_pairs->hash(), as_text->hash());
}

TEST(BytePairEncoding, TakesAMegabyteOfSpaces) {
  const Folder folder;
  const auto t = load(folder, small_tokenizer({{" ", " "}, {"  ", "  "}}));
  const Ids ids = t->encode(std::string(1 << 20, ' ') + "x");
  // The last space goes with the word after it.
  ASSERT_EQ(ids.size(), (1 << 18) - 1 + 2 + 2u);
  EXPECT_EQ(ids[0], 257);
  EXPECT_EQ(Ids(ids.end() - 4, ids.end()), (Ids{256, ' ', ' ', 'x'}));
}

TEST(PreTokenizer, CutsAsGpt2Does) {
  const Folder folder;
  Json json = small_tokenizer({{" ", "a"}, {"a", "a"}, {"a", "1"}, {"'", "s"}, {" ", " "}});
  const auto t = load(folder, json);
  EXPECT_EQ(t->encode("aa1"), (Ids{257, '1'})) << "letters and digits are cut";
  EXPECT_EQ(t->encode("a  a"), (Ids{'a', ' ', 256})) << "one space goes with the word";
  EXPECT_EQ(t->encode("a's"), (Ids{'a', 259}));
  EXPECT_EQ(t->encode("a  "), (Ids{'a', 260}));
}

TEST(PreTokenizer, PutsASpaceBeforeWhenAskedTo) {
  const Folder folder;
  Json json = small_tokenizer({{" ", "a"}});
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const auto t = load(folder, json);
  EXPECT_EQ(t->encode("a"), (Ids{256}));
  EXPECT_EQ(t->encode(" a"), (Ids{256}));
}

struct SplitCase {
  std::string behavior;
  bool invert;
  std::vector<std::string> words;  // of "ab--c-d", cut at "-"
};
class SplitBehavior : public testing::TestWithParam<SplitCase> {};

TEST_P(SplitBehavior, CutsAsHuggingFaceDoes) {
  // Every word that must come out whole is one token, so that the ids show the cuts.
  const Folder folder;
  std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"}, {"-", "-"}, {"-", "c"}, {"-", "d"}, {"ab", "-"}, {"c", "-"}, {"--", "c"}};
  Json json = small_tokenizer(merges);
  json["model"]["ignore_merges"] = true;
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       Json::array({{{"type", "Split"},
                     {"pattern", {{"String", "-"}}},
                     {"behavior", GetParam().behavior},
                     {"invert", GetParam().invert}},
                    {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}})}};
  const auto t = load(folder, json);
  Ids expected;
  for (const std::string& word : GetParam().words) {
    ASSERT_TRUE(json["model"]["vocab"].contains(word)) << word;
    expected.push_back(json["model"]["vocab"][word]);
  }
  EXPECT_EQ(t->encode("ab--c-d"), expected);
}
INSTANTIATE_TEST_SUITE_P(
    All, SplitBehavior,
    testing::Values(SplitCase{"Removed", false, {"ab", "c", "d"}},
                    SplitCase{"Removed", true, {"-", "-", "-"}},
                    SplitCase{"Isolated", false, {"ab", "-", "-", "c", "-", "d"}},
                    SplitCase{"MergedWithPrevious", false, {"ab-", "-", "c-", "d"}},
                    SplitCase{"MergedWithNext", false, {"ab", "-", "-c", "-d"}},
                    SplitCase{"Contiguous", false, {"ab", "--", "c", "-", "d"}}));

TEST(PreTokenizer, CutsDigitsOneByOneOrTogether) {
  const Folder folder;
  Json json = small_tokenizer({{"1", "2"}});
  for (const bool individual : {true, false}) {
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         Json::array({{{"type", "Digits"}, {"individual_digits", individual}},
                      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}})}};
    EXPECT_EQ(load(folder, json)->encode("12"), individual ? (Ids{'1', '2'}) : (Ids{256}));
  }
}

TEST(AddedTokens, AreFoundLeftmostAndLongestBeforeAnyCutting) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array({added(300, "<a>"), added(301, "<a><b>"), added(302, "><")});
  const auto t = load(folder, json);
  EXPECT_EQ(t->encode("<a><b><a>x"), (Ids{301, 300, 'x'}));
  EXPECT_EQ(t->encode("<<a>"), (Ids{'<', 300}));
  EXPECT_EQ(t->encode("<a"), (Ids{'<', 'a'}));
  EXPECT_EQ(t->vocab_size(), 303);
}

TEST(AddedTokens, TakeTheSpacesBesideThemWhenTheyStrip) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array({added(300, "<l>", "lstrip"), added(301, "<r>", "rstrip")});
  const auto t = load(folder, json);
  EXPECT_EQ(t->encode("a \n<l> b"), (Ids{'a', 300, ' ', 'b'}));
  EXPECT_EQ(t->encode("a <r>\u3000 b"), (Ids{'a', ' ', 301, 'b'}));
}

TEST(AddedTokens, OfNormalizedTextAreSoughtInWhatTheOthersLeave) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array({added(300, "ab", "normalized"), added(301, "bc")});
  EXPECT_EQ(load(folder, json)->encode("abc"), (Ids{'a', 301}));
}

TEST(SpecialIds, ComeFromTokenizerConfigThenGenerationConfigThenConfig) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array(
      {added(256, "<s>", "special"), added(257, "</s>", "special"), added(258, "<e>", "special")});
  folder.write("config.json", R"({"bos_token_id": 256, "eos_token_id": 256})");
  EXPECT_EQ(load(folder, json)->eos_id(), 256);
  folder.write("generation_config.json", R"({"eos_token_id": [258, 257]})");
  EXPECT_EQ(load(folder, json)->eos_id(), 258);
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})");
  const auto t = load(folder, json);
  EXPECT_EQ(t->eos_id(), 257);
  EXPECT_EQ(t->bos_id(), 256);
  EXPECT_FALSE(t->adds_bos());
}

TEST(SpecialIds, ATemplateOrTheConfigSaysWhetherBosIsAdded) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array({added(256, "<s>", "special")});
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})}};
  EXPECT_TRUE(load(folder, json)->adds_bos());
  EXPECT_EQ(load(folder, json)->bos_id(), 256);
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": false})");
  EXPECT_FALSE(load(folder, json)->adds_bos());
  json["post_processor"] = nullptr;
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  EXPECT_TRUE(load(folder, json)->adds_bos());
}

TEST(SpecialIds, OutsideTheVocabularyAreRefused) {
  const Folder folder;
  folder.write("config.json", R"({"eos_token_id": 256})");
  EXPECT_THROW(load(folder, small_tokenizer({})), DataError);
}

struct Refused {
  std::string pointer;
  Json value;
  std::string named;
};
class RefusedTokenizer : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTokenizer, NamesTheFileAndThePart) {
  const Folder folder;
  Json json = small_tokenizer({{"a", "b"}});
  json[Json::json_pointer(GetParam().pointer)] = GetParam().value;
  const auto what = message_of<DataError>([&] { load(folder, json); });
  EXPECT_NE(what.find("tokenizer.json: "), std::string::npos) << what;
  EXPECT_NE(what.find(GetParam().named), std::string::npos) << what;
  EXPECT_EQ(what.find('\n'), std::string::npos) << what;
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusedTokenizer,
    testing::Values(
        Refused{"/normalizer", {{"type", "NFC"}}, "NFC"},
        Refused{"/pre_tokenizer", {{"type", "Whitespace"}}, "Whitespace"},
        Refused{"/pre_tokenizer", nullptr, "byte-level"},
        Refused{"/decoder", {{"type", "WordPiece"}}, "WordPiece"},
        Refused{"/post_processor", {{"type", "RobertaProcessing"}}, "RobertaProcessing"},
        Refused{"/model/type", "Unigram", "Unigram"}, Refused{"/model/dropout", 0.1, "dropout"},
        Refused{"/model/byte_fallback", true, "byte_fallback"},
        Refused{"/model/vocab/x", -1, "'x'"}, Refused{"/model/vocab/x", "1", "'x'"},
        Refused{"/model/vocab/x", 1e15, "'x'"}, Refused{"/model/merges/0", "a q2", "q2"},
        Refused{"/model/merges/0", "ab", "merge 0"}, Refused{"/model/merges/0", 3, "merge 0"},
        Refused{"/model/merges/0", "▁ a", "byte alphabet"}, Refused{"/model/merges", 1, "merges"},
        Refused{"/model", 1, "model"}, Refused{"/model/vocab", nullptr, "vocab"},
        Refused{"/added_tokens", Json::array({added(300, "<x>", "single_word")}), "single_word"},
        Refused{"/added_tokens", Json::array({Json::object()}), "content"}));

TEST(Tokenizer, SaysWhatIsWrongWithAPath) {
  const Folder folder;
  EXPECT_NE(message_of<DataError>([&] { load_tokenizer(folder / "none"); }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] { load_tokenizer(folder / ""); }).find("neither"),
            std::string::npos);
  const std::string broken = folder.write("tokenizer.json", "{\"model\": ");
  EXPECT_NE(message_of<DataError>([&] { load_tokenizer(broken); }).find(broken), std::string::npos);
}

TEST(Tokenizer, RefusesAByteWithoutAToken) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["model"]["vocab"].erase("q");
  const auto t = load(folder, json);
  EXPECT_EQ(t->encode("a"), (Ids{'a'}));
  EXPECT_THROW(t->encode("aqa"), DataError);
}

TEST(Tokenizer, GivesManyThreadsTheSameIds) {
  const Folder folder;
  const auto t = load(folder, small_tokenizer({{"a", "b"}, {" ", "a"}, {"c", "c"}}));
  const std::string text = random_text(3, 200000);
  const Ids expected = t->encode(text);
  std::vector<Ids> ids(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& mine : ids) threads.emplace_back([&] { mine = t->encode(text); });
  }
  for (const Ids& mine : ids) EXPECT_EQ(mine, expected);
}

TEST(Tokenizer, WritesAConfigThatNamesItsSpecialTokensWhereThereIsNone) {
  const Folder folder;
  Json json = small_tokenizer({});
  json["added_tokens"] = Json::array({added(256, "</s>", "special")});
  const auto files = load(folder, json)->files();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].first, "tokenizer_config.json");
  EXPECT_EQ(parse_json(files[1].second, "config").at("eos_token"), "</s>");
}

TEST(Regex, CountsTheSameCharactersAsSpacesAsHuggingFace) {
  MatchScratch scratch;
  const Regex space("\\s", "test"), other("\\S", "test"), word("\\w", "test");
  EXPECT_TRUE(space.find(scratch, "\u0085", 0));
  EXPECT_TRUE(space.find(scratch, "\u3000", 0));
  EXPECT_FALSE(space.find(scratch, "\u180E", 0));
  EXPECT_FALSE(space.find(scratch, "\u200B", 0));
  EXPECT_FALSE(other.find(scratch, " \t\u2029", 0));
  EXPECT_TRUE(word.find(scratch, "\u0301", 0)) << "marks are word characters";
}

TEST(Regex, RefusesWhatEnginesReadDifferently) {
  for (const char* pattern : {"\\h", "\\bx", "[a[b]]", "[a-z&&b]", "[\\W]", "(", "a{2"}) {
    if (std::string(pattern) == "a{2") continue;  // a literal in both
    EXPECT_THROW(Regex(pattern, "here"), DataError) << pattern;
  }
}

TEST(Regex, MatchesLongRunsOfGroupsWithinItsOwnStack) {
  MatchScratch scratch;
  const Regex regex("(?:a|b|[c-e])+x|(?:a|b|[c-e])+", "test");
  const std::string text(1 << 20, 'a');
  const auto match = regex.find(scratch, text, 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->end, text.size());
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(utf8::find_invalid("plain ascii, more than eight bytes"), 34u);
  EXPECT_EQ(utf8::find_invalid("é中😀"), 9u);
  for (const std::string bad : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xB8", "\xC3"}) {
    EXPECT_EQ(utf8::find_invalid("01234567" + bad), 8u);
  }
}

}  // namespace
}  // namespace coeus::data::test
