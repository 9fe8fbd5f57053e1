#include "data/prepare.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/json.h"
#include "data/shard.h"
#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

std::map<std::string, std::string> contents_of(const files::Path& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : files::list(folder))
    contents[name] = files::read_text(folder / name);
  return contents;
}

std::string json_line(const std::string& text) {
  return "{\"text\": " + Json(text).dump() + "}\n";
}

// Three files, two of them lines; the middle one longer than a part.
RawText write_texts(const Folder& folder) {
  std::string lines;
  for (std::uint64_t i = 0; i < 300; ++i) lines += json_line(random_text(i, 20 + i * 7 % 900));
  return RawText({folder.write("a.txt", random_text(1, 30000)), folder.write("b.jsonl", lines),
                  folder.write("c.jsonl", json_line("tail") + json_line(""))},
                 "");
}

PrepareOptions options_in(const Folder& folder, const std::string& cache, std::int64_t threads) {
  return {.cache = folder / cache, .text_key = "text", .threads = threads, .part_bytes = 4096};
}

std::vector<std::int64_t> all_tokens(const files::Path& folder) {
  std::vector<std::int64_t> all;
  for (const files::Path& path : shards_of(folder)) {
    const TokenShard shard(path);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(shard.num_tokens()));
    shard.read(0, tokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

TEST(Prepare, WritesTheSameBytesForAnyNumberOfThreads) {
  const Folder folder;
  const RawText text = write_texts(folder);
  const auto tokenizer = load_tokenizer("byte");
  std::vector<std::map<std::string, std::string>> results;
  for (const std::int64_t threads : {1, 2, 7}) {
    const auto options = options_in(folder, fmt::format("cache{}", threads), threads);
    text.prepare(options, *tokenizer);
    results.push_back(contents_of(text.folder(options, *tokenizer)));
  }
  EXPECT_GT(results[0].size(), 20u) << "several parts are cut";
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Prepare, KeepsDocumentsInOrderAndEndsEachByEos) {
  const Folder folder;
  const auto tokenizer = load_tokenizer("byte");
  const RawText text({folder.write("a.txt", "xy"), folder.write("b.txt", ""),
                      folder.write("c.jsonl", json_line("p") + json_line("") + json_line("q"))},
                     "");
  const auto options = options_in(folder, "cache", 1);
  text.prepare(options, *tokenizer);
  EXPECT_EQ(all_tokens(text.folder(options, *tokenizer)),
            (std::vector<std::int64_t>{'x', 'y', 256, 'p', 256, 'q', 256}));
}

TEST(Prepare, DoesItOnce) {
  const Folder folder;
  const RawText text = write_texts(folder);
  const auto tokenizer = load_tokenizer("byte");
  const auto options = options_in(folder, "cache", 1);
  EXPECT_FALSE(text.is_prepared(options, *tokenizer));
  text.prepare(options, *tokenizer);
  EXPECT_TRUE(text.is_prepared(options, *tokenizer));
  const files::Path shard = shards_of(text.folder(options, *tokenizer))[0];
  files::write_text(shard, "touched");
  text.prepare(options, *tokenizer);
  EXPECT_EQ(files::read_text(shard), "touched");
}

TEST(Prepare, NamesItsFolderByWhateverChangesTokens) {
  const Folder folder;
  const auto tokenizer = load_tokenizer("byte");
  const auto base = options_in(folder, "cache", 1);
  const std::string a = folder.write("a.txt", "some text"), b = folder.write("b.txt", "some text");
  const files::Path first = RawText({a, b}, "").folder(base, *tokenizer);
  EXPECT_EQ(RawText({a, b}, "").folder(base, *tokenizer), first);
  EXPECT_NE(RawText({b, a}, "").folder(base, *tokenizer), first);
  EXPECT_NE(RawText({a}, "").folder(base, *tokenizer), first);
  auto other = base;
  other.eos = false;
  EXPECT_NE(RawText({a, b}, "").folder(other, *tokenizer), first);
  other = base;
  other.text_key = "body";
  EXPECT_NE(RawText({a, b}, "").folder(other, *tokenizer), first);
  other = base;
  other.threads = 5;
  EXPECT_EQ(RawText({a, b}, "").folder(other, *tokenizer), first);
  folder.write("b.txt", "some text more");
  EXPECT_NE(RawText({a, b}, "").folder(base, *tokenizer), first);
}

TEST(Prepare, ReportsTheFirstFaultOfTheDataAndLeavesNoPreparedFolder) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += i == 700 || i == 1900 ? "{}\n" : json_line("some words");
  const RawText text({folder.write("a.jsonl", lines)}, "");
  const auto tokenizer = load_tokenizer("byte");
  for (const std::int64_t threads : {1, 4}) {
    const auto options = options_in(folder, "cache", threads);
    const auto what = message_of<DataError>([&] { text.prepare(options, *tokenizer); });
    EXPECT_NE(what.find("a.jsonl:701: no key 'text'"), std::string::npos) << what;
    EXPECT_FALSE(text.is_prepared(options, *tokenizer));
  }
}

TEST(Prepare, AsksForTheTokensThatOptionsName) {
  const Folder folder;
  const RawText text = write_texts(folder);
  auto options = options_in(folder, "cache", 1);
  options.bos = BosPolicy::on;
  const auto what = message_of<DataError>([&] { text.prepare(options, *load_tokenizer("byte")); });
  EXPECT_NE(what.find("data.bos"), std::string::npos) << what;
}

// Prepares in a child that is killed once it has written `shards` shards; false if it was faster.
bool killed_after(const RawText& text, const PrepareOptions& options, const Tokenizer& tokenizer,
                  std::size_t shards) {
  files::Path temporary = text.folder(options, tokenizer);
  temporary += ".tmp";
  const pid_t child = ::fork();
  if (child == 0) {
    text.prepare(options, tokenizer);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    // The first two are whole, and some more have been begun.
    if (files::exists(temporary / "shard-00000.tokens") &&
        files::exists(temporary / "shard-00001.tokens") &&
        files::list(temporary).size() >= shards) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return WIFSIGNALED(status);
}

TEST(Prepare, TakesOverWholeShardsAfterAKillAndGivesTheSameBytes) {
  const Folder folder;
  const RawText text({folder.write("a.jsonl",
                                   [] {
                                     std::string lines;
                                     for (std::uint64_t i = 0; i < 4000; ++i)
                                       lines += json_line(random_text(i, 400));
                                     return lines;
                                   }())},
                     "");
  const auto tokenizer = load_tokenizer("byte");
  const auto clean = options_in(folder, "clean", 1);
  text.prepare(clean, *tokenizer);
  const auto expected = contents_of(text.folder(clean, *tokenizer));

  const auto options = options_in(folder, "cache", 2);
  files::Path temporary = text.folder(options, *tokenizer);
  temporary += ".tmp";
  ASSERT_TRUE(killed_after(text, options, *tokenizer, 5)) << "the child was faster than the test";
  ASSERT_FALSE(text.is_prepared(options, *tokenizer));
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((temporary / "shard-00000.tokens").c_str(), &before), 0);
  // What a power failure may leave: the right length, the wrong bytes.
  std::string damaged = files::read_text(temporary / "shard-00001.tokens");
  damaged[100] = static_cast<char>(damaged[100] + 1);
  files::write_text(temporary / "shard-00001.tokens", damaged);
  files::write_text(temporary / "shard-00002.tokens.part-1", "left by a killed writer");

  text.prepare(options, *tokenizer);
  EXPECT_EQ(contents_of(text.folder(options, *tokenizer)), expected);
  ASSERT_EQ(::stat((text.folder(options, *tokenizer) / "shard-00000.tokens").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "a whole shard was written again";
  EXPECT_FALSE(files::exists(temporary));
}

TEST(Prepare, LetsOneProcessWorkWhileOthersWait) {
  const Folder folder;
  const RawText text = write_texts(folder);
  const auto tokenizer = load_tokenizer("byte");
  const auto options = options_in(folder, "cache", 1);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      try {
        text.prepare(options, *tokenizer);
        ::_exit(shards_of(text.folder(options, *tokenizer)).size() > 5 ? 0 : 1);
      } catch (...) {
        ::_exit(2);
      }
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace coeus::data::test
