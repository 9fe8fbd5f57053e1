#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/error.h"

namespace coeus::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/coeus-files-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { files::remove_all(folder_); }
  Path folder_;
};

std::string what_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const FileError& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST_F(Files, AFailureNamesThePathAndTheReason) {
  const std::string what = what_of([&] { read_text(folder_ / "absent"); });
  EXPECT_THAT(what, HasSubstr((folder_ / "absent").string()));
  EXPECT_THAT(what, HasSubstr("No such file or directory"));
}

TEST_F(Files, ReadingPastTheEndThrowsInsteadOfReturningLess) {
  write_text(folder_ / "a", "12345");
  const File file = File::open_to_read(folder_ / "a");
  std::array<std::byte, 4> into;
  EXPECT_NO_THROW(file.read(1, into));
  EXPECT_THAT(what_of([&] { file.read(2, into); }), HasSubstr("ends at byte 5"));
}

TEST_F(Files, AFileLargerThanAllowedIsRefusedBeforeItIsRead) {
  write_text(folder_ / "a", "12345");
  EXPECT_EQ(read_text(folder_ / "a", 5), "12345");
  EXPECT_THROW(read_text(folder_ / "a", 4), FileError);
}

TEST_F(Files, AFolderIsNoFileToRead) {
  EXPECT_THROW(File::open_to_read(folder_), FileError);
}

TEST_F(Files, APipeIsNoFileToReadAndNobodyWaitsForItsWriter) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(File::open_to_read(folder_ / "pipe"), FileError);
}

TEST_F(Files, PositionalWritesFromTwoThreadsLandWhereTheyShould) {
  const File file = File::create(folder_ / "a");
  const std::string low(100000, 'a'), high(100000, 'b');
  std::thread other([&] { file.write(high.size(), std::as_bytes(std::span(high))); });
  file.write(0, std::as_bytes(std::span(low)));
  other.join();
  EXPECT_EQ(read_text(folder_ / "a"), low + high);
}

TEST_F(Files, AnAtomicWriteReplacesTheWholeFileAndLeavesNothingBeside) {
  write_atomic(folder_ / "a", "a longer first text");
  write_atomic(folder_ / "a", "short");
  EXPECT_EQ(read_text(folder_ / "a"), "short");
  EXPECT_THAT(list(folder_), ElementsAre("a"));
}

TEST_F(Files, AnAtomicWriteThatFailsLeavesTheOldFile) {
  make_directories(folder_ / "target" / "occupied");
  EXPECT_THROW(write_atomic(folder_ / "target", "x"), FileError);
  EXPECT_TRUE(files::is_directory(folder_ / "target"));
  EXPECT_THAT(list(folder_), ElementsAre("target"));
}

TEST_F(Files, AppendedLinesKeepTheirOrder) {
  append_line(folder_ / "log", "one");
  append_line(folder_ / "log", "two");
  EXPECT_EQ(read_text(folder_ / "log"), "one\ntwo\n");
}

TEST_F(Files, AMappedFileShowsTheBytesAndAnEmptyOneIsEmpty) {
  write_text(folder_ / "a", "hello");
  write_text(folder_ / "empty", "");
  MappedFile mapped(folder_ / "a");
  const MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.text(), "hello");
  EXPECT_TRUE(MappedFile(folder_ / "empty").text().empty());
}

TEST_F(Files, GlobFindsBySegmentAndAcrossFoldersSorted) {
  make_directories(folder_ / "b" / "c");
  for (const char* name : {"z.txt", "a.txt", "b/m.txt", "b/c/n.txt", "b/c/n.md", ".hidden.txt"}) {
    write_text(folder_ / name, "");
  }
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> found;
    for (const Path& path : glob((folder_ / pattern).string())) {
      found.push_back(path.lexically_relative(folder_).string());
    }
    return found;
  };
  EXPECT_THAT(names("*.txt"), ElementsAre("a.txt", "z.txt"));
  EXPECT_THAT(names("**/*.txt"), ElementsAre("a.txt", "b/c/n.txt", "b/m.txt", "z.txt"));
  EXPECT_THAT(names("b/*/n.*"), ElementsAre("b/c/n.md", "b/c/n.txt"));
  EXPECT_THAT(names("[a-c].txt"), ElementsAre("a.txt"));
  EXPECT_THAT(names("a.txt"), ElementsAre("a.txt"));
  EXPECT_THAT(names("absent.txt"), ElementsAre());
}

TEST_F(Files, GlobDoesNotFollowLinksInALoop) {
  make_directories(folder_ / "a");
  ASSERT_EQ(::symlink(folder_.c_str(), (folder_ / "a" / "up").c_str()), 0);
  write_text(folder_ / "a" / "x.txt", "");
  EXPECT_EQ(glob((folder_ / "**/x.txt").string()).size(), 1u);
}

TEST_F(Files, AnUnwritableFolderIsNoticed) {
  write_text(folder_ / "file", "");
  EXPECT_NO_THROW(check_writable_directory(folder_ / "new" / "deep"));
  EXPECT_THROW(check_writable_directory(folder_ / "file" / "below"), FileError);
  EXPECT_THAT(list(folder_ / "new" / "deep"), ElementsAre());
}

TEST_F(Files, ALockIsHeldUntilItIsDestroyed) {
  const Path path = folder_ / "lock";
  EXPECT_FALSE(Lock::is_held(path));
  {
    const Lock lock = Lock::acquire(path);
    EXPECT_TRUE(Lock::is_held(path));
  }
  EXPECT_FALSE(Lock::is_held(path));
}

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_hex(""), "2d06800538d394c2");
  EXPECT_NE(hash_hex("a"), hash_hex("b"));
}

}  // namespace
}  // namespace coeus::files
