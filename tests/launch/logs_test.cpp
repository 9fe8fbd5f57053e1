#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/files.h"
#include "launch/launcher.h"
#include "launch/rank_output.h"
#include "tests/launch/fake_environment.h"

namespace coeus::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class Logs : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = files::Path(testing::TempDir()) / fmt::format("logs-{}-{}", test->name(), getpid());
    files::make_directories(folder_);
    for (int* fd : {&out_, &err_})
      *fd = open((folder_ / (fd == &out_ ? "out" : "err")).c_str(), O_CREAT | O_RDWR | O_CLOEXEC,
                 0600);
  }
  void TearDown() override {
    close(out_);
    close(err_);
    files::remove_all(folder_);
  }
  LaunchOptions options(int ranks, const std::string& script) {
    LaunchOptions options;
    options.ranks_per_node = ranks;
    options.program = {"bash", "-c", script};
    options.log_directory = (folder_ / "logs").string();
    options.out = out_;
    options.err = err_;
    return options;
  }
  std::string read(const std::string& name) const { return files::read_text(folder_ / name); }

  files::Path folder_;
  int out_ = -1, err_ = -1;
};

TEST_F(Logs, HoldBothStreamsAndShowRankZeroOnItsOwn) {
  ASSERT_EQ(launch(options(2, "echo out $RANK; sleep 0.1; echo err $RANK >&2"), fake({})), 0);
  EXPECT_EQ(read("logs/attempt-0/rank-0.log"), "out 0\nerr 0\n");
  EXPECT_EQ(read("logs/attempt-0/rank-1.log"), "out 1\nerr 1\n");
  EXPECT_EQ(read("out"), "out 0\n");
  EXPECT_EQ(read("err"), "err 0\n");
}

TEST_F(Logs, PrefixLinesWhenSeveralRanksAreShown) {
  auto shown = options(3, "printf 'a%s\\nb' $RANK");
  shown.shown_local_ranks = {1, 2};
  ASSERT_EQ(launch(shown, fake({})), 0);
  EXPECT_THAT(read("out"), HasSubstr("[rank1]: a1\n"));
  EXPECT_THAT(read("out"), HasSubstr("[rank2]: b\n"));
  EXPECT_THAT(read("out"), Not(HasSubstr("[rank0]")));
}

TEST_F(Logs, AreNeverOverwritten) {
  ASSERT_EQ(launch(options(1, "echo first"), fake({})), 0);
  ASSERT_EQ(launch(options(2, "echo second"), fake({})), 0);
  EXPECT_EQ(read("logs/attempt-0/rank-0.log"), "first\n");
  EXPECT_EQ(read("logs/attempt-1/rank-0.log"), "second\n");
  EXPECT_EQ(read("logs/attempt-1/rank-1.log"), "second\n");
}

TEST_F(Logs, OfTwoNodesLandInTheSameAttempt) {
  const auto logs = folder_ / "shared";
  for (int attempt = 0; attempt < 2; ++attempt)
    for (int first : {2, 0}) {
      const auto folder = next_attempt(logs, first, 2);
      EXPECT_EQ(folder.filename(), fmt::format("attempt-{}", attempt));
      files::write_text(folder / fmt::format("rank-{}.log", first + 1), "");
    }
  files::make_directories(logs / "attempt-notes");
  EXPECT_EQ(next_attempt(logs, 0, 1).filename(), "attempt-0") << "rank 0 has no log yet";
}

TEST_F(Logs, AreInheritedOutputsWithoutADirectory) {
  auto inherited = options(2, "echo rank $RANK");
  inherited.log_directory.clear();
  ASSERT_EQ(launch(inherited, fake({})), 0);
  EXPECT_THAT(read("out"), HasSubstr("rank 0\n"));
  EXPECT_THAT(read("out"), HasSubstr("rank 1\n"));
}

TEST_F(Logs, TakeMoreThanAPipeHolds) {
  ASSERT_EQ(launch(options(1, "head -c 3000000 /dev/zero | tr '\\0' x"), fake({})), 0);
  EXPECT_EQ(read("logs/attempt-0/rank-0.log").size(), 3000000u);
  EXPECT_EQ(read("out").size(), 3000000u);
}

TEST_F(Logs, KeepTheLastLinesOfALongComplaint) {
  ASSERT_EQ(launch(options(2, "[ $RANK = 1 ] && { seq 1 20000 >&2; exit 3; }; true"), fake({})), 3);
  EXPECT_THAT(read("err"), HasSubstr("[rank1]: 20000\n"));
  EXPECT_THAT(read("err"), HasSubstr("[rank1]: 19981\n"));
  EXPECT_THAT(read("err"), Not(HasSubstr("[rank1]: 19980\n")));
}

}  // namespace
}  // namespace coeus::launch
