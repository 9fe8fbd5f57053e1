#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace coeus {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Log, WritesToTheFileWithPrefixAndSeverity) {
  const std::string path = testing::TempDir() + "/coeus-log-test.log";
  files::remove(path);
  const auto logger =
      make_logger({.prefix = "[rank3] 100% ", .file = path, .color = LogColor::off});
  logger->info("plain words");
  logger->warn("look out");
  logger->debug("not shown");
  const std::string text = files::read_text(path);
  EXPECT_THAT(text, HasSubstr("[rank3] 100% plain words\n"));
  EXPECT_THAT(text, HasSubstr("[rank3] 100% warning: look out\n"));
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
}

TEST(Log, AnUnknownLevelIsAUsageError) {
  EXPECT_THROW(make_logger({.level = "loud"}), UsageError);
  EXPECT_NO_THROW(make_logger({.level = "off"}));
}

TEST(Log, AFileThatCannotBeOpenedIsAFileError) {
  EXPECT_THROW(make_logger({.file = "/dev/null/x.log"}), FileError);
}

TEST(Assert, NamesTheConditionAndTheReason) {
  try {
    COEUS_ASSERT(1 + 1 == 3, "rank {}", 7);
    FAIL();
  } catch (const AssertionError& e) {
    EXPECT_THAT(e.what(), HasSubstr("assertion failed: 1 + 1 == 3: rank 7"));
  }
}

}  // namespace
}  // namespace coeus
