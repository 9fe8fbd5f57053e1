#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/files.h"

namespace coeus::app {

struct Outcome {
  int code = 0;
  std::string out, err;
};

// A folder of its own for each test, in which command lines run under bash.
class BinaryTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = files::Path(testing::TempDir()) /
              fmt::format("app-{}-{}-{}", test->test_suite_name(), test->name(), getpid());
    files::make_directories(folder_);
  }
  void TearDown() override { files::remove_all(folder_); }

  Outcome run(const std::string& command) {
    files::write_text(folder_ / "command.sh", command + "\n");
    const int status = std::system(fmt::format("cd {} && env -u OMP_NUM_THREADS "
                                               "-u CUDA_VISIBLE_DEVICES bash command.sh "
                                               ">out 2>err </dev/null",
                                               folder_.string())
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, files::read_text(folder_ / "out"),
            files::read_text(folder_ / "err")};
  }

  files::Path folder_;
};

}  // namespace coeus::app
