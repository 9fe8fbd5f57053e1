#include "data/formats/format.h"

#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

using Texts = std::vector<std::string>;

Texts read_range(const std::string& path, ByteRange range, const std::string& key = "text") {
  const files::MappedFile file(path);
  Texts texts;
  format_of(path, "").text->read(file, range, key,
                                 [&](std::string_view text) { texts.emplace_back(text); });
  return texts;
}
Texts read_all(const std::string& path, const std::string& key = "text") {
  return read_range(path, {0, files::File::open_to_read(path).size()}, key);
}

TEST(PlainText, IsOneDocumentWithoutItsByteOrderMark) {
  const Folder folder;
  const std::string text("first\r\n\r\nsecond \0 third", 23);
  EXPECT_EQ(read_all(folder.write("a.txt", text)), Texts{text});
  EXPECT_EQ(read_all(folder.write("b.md", "\xEF\xBB\xBFmarked")), Texts{"marked"});
}

TEST(PlainText, NamesTheLineThatIsNotUtf8) {
  const Folder folder;
  const std::string path = folder.write("a.txt", "one\ntwo\nthr\xE4\xB8 ee\n");
  const auto what = message_of<DataError>([&] { read_all(path); });
  EXPECT_NE(what.find(path + ":3: "), std::string::npos) << what;
}

TEST(JsonLines, LetsMarksCarriageReturnsBlankLinesAndAMissingLastNewlinePass) {
  const Folder folder;
  EXPECT_EQ(read_all(folder.write("a.jsonl",
                                  "\xEF\xBB\xBF{\"text\": \"one\", \"x\": [1]}\r\n\r\n  \n"
                                  "{\"id\": 2, \"text\": \"two\\nlines \\u00e9\\u0000\"}\n"
                                  "{\"text\": \"\"}\n{\"text\": \"last\"}")),
            (Texts{"one", std::string("two\nlines é\0", 13), "", "last"}));
}

TEST(JsonLines, TakesTheTextUnderTheNamedKey) {
  const Folder folder;
  EXPECT_EQ(read_all(folder.write("a.jsonl", R"({"text": "no", "body": "yes"})"), "body"),
            Texts{"yes"});
}

struct BadLine {
  std::string line, named;
};
class BadJsonLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadJsonLine, IsNamedByFileAndLine) {
  const Folder folder;
  const std::string path =
      folder.write("a.jsonl", "{\"text\": \"fine\"}\n\n" + GetParam().line + "\n");
  const auto what = message_of<DataError>([&] { read_all(path); });
  EXPECT_NE(what.find(path + ":3: "), std::string::npos) << what;
  EXPECT_NE(what.find(GetParam().named), std::string::npos) << what;
  EXPECT_EQ(what.find('\n'), std::string::npos) << what;
}
INSTANTIATE_TEST_SUITE_P(
    All, BadJsonLine,
    testing::Values(
        BadLine{R"({"txt": "x"})", "no key 'text'"}, BadLine{R"({"text": 3})", "not a string"},
        BadLine{R"({"text": null})", "not a string"}, BadLine{R"(["text"])", "not a JSON object"},
        BadLine{R"("text")", "object"}, BadLine{R"({"text": "x")", "not valid JSON"},
        BadLine{R"({"text": "x"} {"text": "y"})", "not valid JSON"},
        BadLine{R"({"text": "\ud800"})", "surrogate"},
        BadLine{R"({"text": "\udc00x"})", "surrogate"}, BadLine{"{\"text\": \"\xC3(\"}", "UTF-8"},
        BadLine{std::string("{\"text\": \"a\0b\"}", 14), "not valid JSON"},
        BadLine{R"({"text": "x", "text": "y"})", "duplicate"},
        BadLine{std::string(100000, '['), "nested"}));

TEST(JsonLines, EveryCutGivesEachDocumentToOneRange) {
  const Folder folder;
  const std::string path =
      folder.write("a.jsonl", "{\"text\":\"a\"}\n\n{\"text\":\"bb\"}\r\n{\"text\":\"c\"}");
  const std::uint64_t size = files::File::open_to_read(path).size();
  for (std::uint64_t first = 0; first <= size; ++first) {
    for (std::uint64_t second = first; second <= size; ++second) {
      Texts texts;
      for (const ByteRange range : {ByteRange{0, first}, {first, second}, {second, size}}) {
        for (const std::string& text : read_range(path, range)) texts.push_back(text);
      }
      ASSERT_EQ(texts, (Texts{"a", "bb", "c"})) << first << " " << second;
    }
  }
}

TEST(Formats, SayWhichFilesCannotBeReadYet) {
  for (const char* name : {"a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.bin", "a.npy", "a.ds"}) {
    const auto what = message_of<DataError>([&] { format_of(name, "c.yaml:3:5: "); });
    EXPECT_NE(what.find("not supported yet"), std::string::npos) << what;
    EXPECT_TRUE(what.starts_with("c.yaml:3:5: " + std::string(name))) << what;
  }
  EXPECT_THROW(format_of("a.docx", ""), DataError);
  EXPECT_THROW(format_of("txt", ""), DataError);
}

}  // namespace
}  // namespace coeus::data::test
