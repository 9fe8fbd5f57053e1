// Ids against Hugging Face's own (tokenizers 0.23.3) for two published vocabularies, on real text.
// scripts/fetch_test_data fetches both; without them these tests skip.
#include <cstdlib>
#include <span>

#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

std::string data_file(const std::string& name) {
  const char* root = std::getenv("COEUS_SOURCE_DIR");
  const char* elsewhere = std::getenv("COEUS_TEST_DATA");
  const files::Path folder = elsewhere != nullptr
                                 ? files::Path(elsewhere)
                                 : files::Path(root ? root : ".") / "third_party/data";
  return (folder / name).string();
}

std::string hash_of(const std::vector<std::int32_t>& ids) {
  return fmt::format("{:016x}", files::hash(std::as_bytes(std::span(ids))));
}

struct Golden {
  std::string vocabulary, text;
  std::size_t num_ids;
  std::string hash;  // XXH3-64 of the ids that Hugging Face gives, as little-endian 32-bit numbers
};
void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.vocabulary << " " << golden.text;
}

class RealVocabulary : public testing::TestWithParam<Golden> {};

TEST_P(RealVocabulary, GivesHuggingFacesIdsAndTheTextBack) {
  const std::string tokenizer =
      data_file("tokenizers/" + GetParam().vocabulary + "/tokenizer.json");
  const std::string text = data_file("texts/" + GetParam().text);
  for (const std::string& file : {tokenizer, text}) {
    if (!files::exists(file)) GTEST_SKIP() << file << " is absent: run scripts/fetch_test_data";
  }
  const auto t = load_tokenizer(tokenizer);
  const std::string content = files::read_text(text);
  const auto ids = t->encode(content);
  EXPECT_EQ(ids.size(), GetParam().num_ids);
  EXPECT_EQ(hash_of(ids), GetParam().hash);
  EXPECT_EQ(t->decode(ids), content);
}

INSTANTIATE_TEST_SUITE_P(
    All, RealVocabulary,
    testing::Values(Golden{"dolma2", "hamlet.txt", 46871, "ddce9ba3caa642ca"},
                    Golden{"dolma2", "unicode.rst.txt", 7878, "090f72cb50e2350e"},
                    Golden{"dolma2", "perlcn.pod", 1808, "64de0b97fbf2e4fd"},
                    Golden{"deepseek", "hamlet.txt", 46395, "5df6de1c681ca8ab"},
                    Golden{"deepseek", "unicode.rst.txt", 8096, "cecd06ed5f388efa"},
                    Golden{"deepseek", "perlcn.pod", 1465, "8aa9a049d4a19fe3"}));

}  // namespace
}  // namespace coeus::data::test
