#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "layout/schedule/schedule.h"
#include "tests/layout/schedule_interpreter.h"

namespace coeus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = Action::Kind;

class ScheduleFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = files::Path(::testing::TempDir()) / fmt::format("schedule-{}", getpid());
    files::make_directories(folder_);
  }
  void TearDown() override { files::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    files::write_text(folder_ / name, text);
    return (folder_ / name).string();
  }
  // What make_schedule says of a file for two ranks with one stage each and two micro-batches.
  std::string fault(const std::string& name, const std::string& text) {
    try {
      make_schedule(write(name, text), 2, 1, 2);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  }

  files::Path folder_;
};

std::string cell(const Action& a) {
  static const std::map<Kind, const char*> words = {{Kind::forward, "F"},
                                                    {Kind::backward, "I"},
                                                    {Kind::weight, "W"},
                                                    {Kind::send_forward, "SEND_F"},
                                                    {Kind::receive_forward, "RECV_F"},
                                                    {Kind::send_backward, "SEND_B"},
                                                    {Kind::receive_backward, "RECV_B"}};
  return fmt::format("{}{}{}", a.stage, words.at(a.kind), a.micro_batch);
}

std::string rows(const Schedule& s, const char* open, const char* close) {
  std::string text;
  for (const auto& list : s.ranks) {
    std::string row;
    for (const Action& a : list) row += (row.empty() ? "" : ",") + cell(a);
    text += open + row + close;
  }
  return text;
}

TEST_F(ScheduleFile, CsvAndYamlSayWhatTheBuiltInOnesSay) {
  for (const Schedule& s : testing::all_schedules(3, 4)) {
    const std::int64_t v = s.num_stages / s.num_ranks;
    const Schedule csv = make_schedule(write("a.csv", rows(s, "", "\n")), 3, v, 4);
    EXPECT_EQ(csv.ranks, s.ranks) << s.name;
    EXPECT_EQ(csv.rank_of_stage, s.rank_of_stage) << s.name;
    const std::string yaml = fmt::format("name: mine\nrank_of_stage: [{}]\nranks:\n{}",
                                         fmt::join(s.rank_of_stage, ", "), rows(s, "  - [", "]\n"));
    const Schedule read = make_schedule(write("a.yaml", yaml), 3, v, 4);
    EXPECT_EQ(read.name, "mine");
    EXPECT_EQ(read.ranks, s.ranks) << s.name;
    EXPECT_EQ(read.rank_of_stage, s.rank_of_stage) << s.name;
    EXPECT_EQ(read.num_stages, s.num_stages);
    EXPECT_EQ(read.num_micro_batches, 4);
  }
}

TEST_F(ScheduleFile, TransfersInAFileAreProvedAndLeftOut) {
  const Schedule s = make_schedule("1f1b", 3, 1, 4);
  const Schedule full = with_transfers(s);
  EXPECT_EQ(make_schedule(write("a.csv", rows(full, "", "\n")), 3, 1, 4).ranks, s.ranks);
  Schedule broken = full;
  auto& list = broken.ranks[1];
  std::erase_if(
      list, [](const Action& a) { return a.kind == Kind::receive_forward && a.micro_batch == 2; });
  try {
    make_schedule(write("b.csv", rows(broken, "", "\n")), 3, 1, 4);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("b.csv: rank 1 lacks receive of micro-batch 2's input of "
                                          "stage 1 from rank 0"),
                                HasSubstr("rank 0 waits for ever")));
  }
}

TEST_F(ScheduleFile, ABackwardWithoutItsWeightsFormsThemToo) {
  // The 1F1B that PyTorch writes: no W, and empty cells for pauses.
  const std::string path = write("a.csv", "0F0,0F1,,,0B0,,0B1\r\n, 1F0, 1B0, 1F1,1B1\n\n");
  EXPECT_EQ(make_schedule(path, 2, 1, 2).ranks, make_schedule("1f1b", 2, 1, 2).ranks);
  // Where there is a W, B and I are one.
  const std::string split = write("b.csv", "0F0,0F1,0B0,0W0,0B1,0W1\n1F0,1F1,1I0,1B1,1W0,1W1\n");
  const Schedule s = make_schedule(split, 2, 1, 2);
  EXPECT_EQ(s.ranks[0], make_schedule("gpipe", 2, 1, 2).ranks[0]);
  EXPECT_EQ(s.ranks[1].size(), 6u);
  EXPECT_TRUE(delays_weights(s));
}

TEST_F(ScheduleFile, WhatDoesNotHoldIsRefusedWithACounterExample) {
  EXPECT_THAT(fault("a.csv", "0F0,0F1,0B0,0B1\n1F0,1B1,1F1,1B0\n"),
              HasSubstr("a.csv: rank 1: backward of micro-batch 1 on stage 1 (action 1) comes "
                        "before"));
  EXPECT_THAT(fault("a.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"), HasSubstr("a.csv: deadlock: "));
  EXPECT_THAT(fault("a.csv", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0\n"),
              HasSubstr("rank 1 lacks backward of micro-batch 1 on stage 1"));
  EXPECT_THAT(fault("a.csv", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,0B1\n"),
              HasSubstr("rank 1: backward of micro-batch 1 on stage 0: stage 0 is on rank 0"));
  EXPECT_THAT(fault("a.yaml",
                    "name: x\nrank_of_stage: [1, 0]\nranks: [[0F0, 0F1, 0B0, 0B1], [1F0, 1F1, 1B0, "
                    "1B1]]\n"),
              HasSubstr("rank 0: forward of micro-batch 0 on stage 0: stage 0 is on rank 1"));
  EXPECT_THAT(fault("a.csv", "0F0,0F1,0B0,0B1\n0F1\n"), HasSubstr("no rank runs stage 1"));
}

TEST_F(ScheduleFile, WhatCannotBeReadIsNamedByItsPlace) {
  EXPECT_THAT(fault("a.csv", "0F0,0X1\n1F0,F1,12F\n"),
              AllOf(HasSubstr("a.csv:1:5: '0X1' is no action"), HasSubstr("a.csv:2:5: 'F1'"),
                    HasSubstr("a.csv:2:8: '12F'")));
  EXPECT_THAT(fault("a.csv", "0F99999999999999999999\n"), HasSubstr("is no action"));
  EXPECT_THAT(fault("a.csv", "-1F0\n"), HasSubstr("'-1F0' is no action"));
  EXPECT_THAT(fault("a.csv", "0UNSHARD\n"), HasSubstr("as in 0F1"));
  EXPECT_THAT(fault("a.yaml", "name: x\nrank_of_stage: [0, 1]\nranks: [[0F0, 0Q1]]\n"),
              AllOf(HasSubstr("a.yaml:3:15: ranks.0.1: '0Q1' is no action")));
  EXPECT_THAT(fault("a.yaml", "nam: x\nrank_of_stage: [0, 1]\nranks: [[0F0]]\n"),
              HasSubstr("did you mean name"));
  EXPECT_THAT(fault("a.yaml", "ranks: [[0F0]]\n"), HasSubstr("rank_of_stage: is required"));
  EXPECT_THAT(fault("a.yaml", "ranks: [\n"), HasSubstr("not valid YAML"));
}

TEST_F(ScheduleFile, AnotherShapeThanTheRunsIsAFault) {
  EXPECT_THAT(fault("a.csv", "0F0,0F1,0B0,0B1\n"),
              AllOf(HasSubstr("lists for 1 ranks, but pp is 2")));
  EXPECT_THAT(fault("a.csv", "0F0,0B0\n1F0,1B0\n"),
              HasSubstr("made for 1 micro-batches, but a step of this run has 2"));
  EXPECT_THAT(fault("a.csv", "0F0,0F1\n2F0,2F1\n"),
              HasSubstr("names stage 2, but pp 2 · pp_stages_per_rank 1 makes 2"));
  EXPECT_THAT(fault("a.yaml", "rank_of_stage: [0, 1, 0]\nranks: [[0F1], [1F1]]\n"),
              HasSubstr("has 3 stages, but pp 2 · pp_stages_per_rank 1 is 2"));
  EXPECT_THAT(fault("a.csv", ""), HasSubstr("lists for 0 ranks"));
}

TEST_F(ScheduleFile, AMissingFileIsAConfigurationError) {
  EXPECT_THROW(make_schedule((folder_ / "absent.csv").string(), 2, 1, 2), ConfigError);
}

}  // namespace
}  // namespace coeus
