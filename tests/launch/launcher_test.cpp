#include "launch/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "tests/launch/fake_environment.h"

namespace coeus::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

// A launch of bash one-liners; what it shows lands in shown.txt.
class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        files::Path(testing::TempDir()) / fmt::format("launcher-{}-{}", test->name(), getpid());
    files::make_directories(folder_);
    shown_ = open((folder_ / "shown.txt").c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
  }
  void TearDown() override {
    close(shown_);
    files::remove_all(folder_);
  }

  LaunchOptions options(int ranks, const std::string& script) {
    LaunchOptions options;
    options.ranks_per_node = ranks;
    options.program = {"bash", "-c", script};
    options.log_directory = (folder_ / "logs").string();
    options.stop_seconds = options.signal_stop_seconds = 60;
    options.out = options.err = shown_;
    return options;
  }
  int run(int ranks, const std::string& script) { return launch(options(ranks, script), fake({})); }
  std::string shown() const { return files::read_text(folder_ / "shown.txt"); }
  std::string log(int rank, int attempt = 0) const {
    return files::read_text(folder_ / "logs" / fmt::format("attempt-{}", attempt) /
                            fmt::format("rank-{}.log", rank));
  }

  files::Path folder_;
  int shown_ = -1;
};

// Waits in small steps, so that a signal sent to the shell acts at once.
const std::string kSleep = "for i in $(seq 1200); do sleep 0.05; done; ";

TEST_F(Launcher, ReturnsZeroWhenAllRanksFinish) {
  EXPECT_EQ(run(3, "true"), 0);
}

TEST_F(Launcher, GivesEachRankTorchrunsVariables) {
  auto two_nodes =
      options(2,
              "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
              "$MASTER_ADDR $MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RUN_ID");
  two_nodes.num_nodes = 2;
  two_nodes.node_rank = 1;
  two_nodes.master_address = "head";
  two_nodes.master_port = 1234;
  two_nodes.run_id = "job7";
  EXPECT_EQ(launch(two_nodes, fake({})), 0);
  EXPECT_EQ(log(2), "2 4 0 2 1 2 head 1234 False job7\n");
  EXPECT_EQ(log(3), "3 4 1 2 1 2 head 1234 False job7\n");
  EXPECT_EQ(shown(), "");
}

TEST_F(Launcher, SharesTheCoresAmongRanksUnlessToldOtherwise) {
  EXPECT_EQ(launch(options(1, "echo $OMP_WAIT_POLICY; test $OMP_NUM_THREADS -ge 1"), fake({})), 0);
  EXPECT_THAT(shown(), HasSubstr("passive\n"));
  EXPECT_EQ(launch(options(1, "test \"$OMP_NUM_THREADS\" = \"$1\""),
                   fake({{"OMP_NUM_THREADS", "from the user"}})),
            getenv("OMP_NUM_THREADS") ? 1 : 0);
}

TEST_F(Launcher, HandsRankZeroTheSocketOfTheMasterPort) {
  EXPECT_EQ(run(2,
                "if [ $RANK = 0 ]; then [ -S /proc/self/fd/$COEUS_LISTEN_FD ]; "
                "else [ -z \"$COEUS_LISTEN_FD\" ]; fi"),
            0)
      << shown();
}

TEST_F(Launcher, KeepsTheMasterPortFreeForAProgramThatBindsItItself) {
  const std::string python =
      "python3 -c 'import os,socket; s=socket.socket(); "
      "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
      "s.bind((\"127.0.0.1\", int(os.environ[\"MASTER_PORT\"]))); s.listen()'";
  EXPECT_EQ(run(1, python), 0) << shown();
}

TEST_F(Launcher, RefusesATakenMasterPort) {
  auto first = options(1, "echo $MASTER_PORT");
  ASSERT_EQ(launch(first, fake({})), 0);
  first.master_port = std::stoi(shown());
  first.program = {"bash", "-c", "true"};
  EXPECT_EQ(launch(first, fake({})), 0);
  first.program = {"python3", "-c",
                   "import os,subprocess,sys,socket\n"
                   "s=socket.socket(fileno=int(os.environ['COEUS_LISTEN_FD'])); s.listen()\n"
                   "t=socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                   "try: t.bind(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n"
                   "except OSError: sys.exit(9)\n"};
  EXPECT_EQ(launch(first, fake({})), 9) << shown();
}

TEST_F(Launcher, ReturnsTheFailingRanksCodeAndEndsTheOthers) {
  EXPECT_EQ(run(4, "[ $RANK = 2 ] && { echo oops >&2; exit 3; }; " + kSleep), 3);
  EXPECT_THAT(shown(), HasSubstr("[rank2]: oops\n"));
  EXPECT_THAT(shown(), HasSubstr("coeus: error: rank 2 left with 3; its log: "));
}

TEST_F(Launcher, ShowsTheCausesErrorLinesOnce) {
  EXPECT_EQ(run(3, "[ $RANK = 0 ] && { " + kSleep +
                       "}; echo noise >&2; "
                       "[ $RANK = 1 ] && { echo 'coeus: error: the cause' >&2; exit 2; }; " +
                       kSleep),
            2);
  const std::string text = shown();
  const auto first = text.find("the cause");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("the cause", first + 1), std::string::npos) << text;
  EXPECT_THAT(text, Not(HasSubstr("noise")));
}

TEST_F(Launcher, SaysOnceWhatAShownRankSaid) {
  EXPECT_EQ(run(2, "[ $RANK = 0 ] && { echo 'coeus: error: mine' >&2; exit 4; }; " + kSleep), 4);
  const std::string text = shown();
  EXPECT_EQ(text.find("mine"), text.rfind("mine")) << text;
}

TEST_F(Launcher, ReportsASignalAs128Plus) {
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && kill -SEGV $$; " + kSleep), 128 + SIGSEGV);
  EXPECT_THAT(shown(), HasSubstr("rank 1 was killed by SIGSEGV"));
}

TEST_F(Launcher, BlamesTheRankThatFailedRatherThanTheOneThatLostItsPeer) {
  EXPECT_EQ(run(3, "[ $RANK = 0 ] && exit 5; [ $RANK = 2 ] && { sleep 0.3; exit 3; }; " + kSleep),
            3);
  EXPECT_THAT(shown(), HasSubstr("coeus: error: rank 2 left with 3"));
}

TEST_F(Launcher, ReturnsPeerLostWhenNobodyFailedOnItsOwn) {
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && exit 5; trap 'exit 1' TERM; " + kSleep), 1);
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && exit 5; " + kSleep), 5);
}

TEST_F(Launcher, KillsRanksThatDoNotStop) {
  const std::string ready = (folder_ / "ready").string();
  auto stubborn = options(2, "if [ $RANK = 0 ]; then until [ -e " + ready +
                                 " ]; do sleep 0.02; done; exit 3; fi; trap '' TERM; touch " +
                                 ready + "; " + kSleep);
  stubborn.stop_seconds = 0.2;
  EXPECT_EQ(launch(stubborn, fake({})), 3);
  EXPECT_THAT(shown(), HasSubstr("rank 1 did not stop when asked: SIGKILL"));
}

TEST_F(Launcher, Returns75OnlyIfAllRanksLeftWith75) {
  EXPECT_EQ(run(2, "exit 75"), 75);
  EXPECT_EQ(run(2, "exit $((75 * RANK))"), 1);
  EXPECT_THAT(shown(), HasSubstr("1 of 2 ranks saved"));
  EXPECT_EQ(run(2, "[ $RANK = 0 ] && exit 75; sleep 0.2; exit 3"), 3);
}

// Rank 0 signals its parent, the launcher, once all ranks have installed their traps.
std::string signal_launcher(const std::string& folder, const std::string& signal) {
  return "touch " + folder + "/ready-$RANK; if [ $RANK = 0 ]; then until [ -e " + folder +
         "/ready-1 ]; do sleep 0.02; done; kill -" + signal + " $PPID; fi; ";
}

TEST_F(Launcher, ForwardsSignalsAndWaitsForTheSave) {
  for (const char* name : {"TERM", "INT", "USR1", "HUP"}) {
    const std::string caught = std::string(name) == "HUP" ? "TERM" : name;
    const std::string folder = (folder_ / name).string();
    files::make_directories(folder);
    EXPECT_EQ(run(2, "trap 'sleep 0.2; exit 75' " + caught + "; " + signal_launcher(folder, name) +
                         kSleep),
              75)
        << name << shown();
  }
}

TEST_F(Launcher, KillsRanksThatIgnoreTheSignalAfterItsDeadline) {
  auto stubborn = options(2, "trap '' TERM; " + signal_launcher(folder_.string(), "TERM") + kSleep);
  stubborn.signal_stop_seconds = 0.2;
  EXPECT_EQ(launch(stubborn, fake({})), 128 + SIGKILL);
}

TEST_F(Launcher, ReturnsTheSignalOfRanksThatDieOfIt) {
  EXPECT_EQ(run(2, signal_launcher(folder_.string(), "TERM") + kSleep), 128 + SIGTERM);
}

TEST_F(Launcher, RefusesAProgramThatCannotBeRun) {
  auto missing = options(2, "");
  missing.program = {"/no/such/program"};
  EXPECT_THROW(launch(missing, fake({})), UsageError);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST_F(Launcher, LeavesNoProcessBehind) {
  EXPECT_EQ(run(2, "sleep 300 & echo $! > " + folder_.string() + "/grandchild-$RANK; exit $RANK"),
            1);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  for (int rank = 0; rank < 2; ++rank) {
    const auto file = folder_ / fmt::format("grandchild-{}", rank);
    const pid_t pid = std::stoi(files::read_text(file));
    for (int i = 0; i < 500 && kill(pid, 0) == 0; ++i) {
      // An orphan may wait as a zombie for its new parent: that one no longer runs.
      const auto stat = fmt::format("/proc/{}/stat", pid);
      if (files::exists(stat) && files::read_text(stat).find(") Z") != std::string::npos) break;
      ASSERT_LT(i, 499) << "a grandchild still runs";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

TEST_F(Launcher, TakesItsRanksWithItWhenKilled) {
  const auto pid_file = folder_ / "rank.pid";
  const pid_t launcher = fork();
  if (launcher == 0)
    _exit(launch(options(1, "echo $$ > " + pid_file.string() + ".new; mv " + pid_file.string() +
                                ".new " + pid_file.string() + "; " + kSleep),
                 fake({})));
  while (!files::exists(pid_file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const pid_t rank = std::stoi(files::read_text(pid_file));
  EXPECT_EQ(kill(rank, 0), 0);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  const auto stat = fmt::format("/proc/{}/stat", rank);
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    gone = kill(rank, 0) != 0 || files::read_text(stat).find(") Z") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone);
}

TEST_F(Launcher, RestoresTheCallersSignals) {
  sigset_t before, after;
  sigprocmask(SIG_SETMASK, nullptr, &before);
  run(1, "true");
  sigprocmask(SIG_SETMASK, nullptr, &after);
  for (int s = 1; s < 32; ++s) EXPECT_EQ(sigismember(&before, s), sigismember(&after, s)) << s;
}

}  // namespace
}  // namespace coeus::launch
