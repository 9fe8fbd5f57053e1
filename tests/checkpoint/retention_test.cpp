#include "tests/checkpoint/support.h"

namespace coeus::checkpoint {
namespace {

std::vector<std::int64_t> steps_in(const files::Path& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& c : find_checkpoints(directory)) steps.push_back(c.step);
  return steps;
}

CheckpointConfig policy(std::int64_t keep, std::int64_t keep_every) {
  CheckpointConfig config;
  config.keep = keep;
  config.keep_every = keep_every;
  return config;
}

using Steps = std::vector<std::int64_t>;

TEST(Retention, KeepsTheNewestAndTheMultiples) {
  Folder folder;
  for (std::int64_t step = 10; step <= 70; step += 10) save_alone(folder.path(), step);
  const auto removed = retain(folder.path(), policy(3, 20));
  EXPECT_EQ(removed,
            (std::vector<files::Path>{folder / "step-00000010", folder / "step-00000030"}));
  EXPECT_EQ(steps_in(folder.path()), (Steps{20, 40, 50, 60, 70}));
  retain(folder.path(), policy(0, 0));
  EXPECT_EQ(steps_in(folder.path()), (Steps{20, 40, 50, 60, 70}));
  retain(folder.path(), policy(1, 0));
  EXPECT_EQ(steps_in(folder.path()), (Steps{60, 70}));
}

TEST(Retention, CountsOnlyValidOnesAndLeavesFaultyOnesAlone) {
  Folder folder;
  for (std::int64_t step = 10; step <= 50; step += 10) save_alone(folder.path(), step);
  files::remove(folder / "step-00000050" / "config.json");
  files::remove(folder / "step-00000030" / "manifest.json");
  retain(folder.path(), policy(1, 0));
  EXPECT_EQ(steps_in(folder.path()), (Steps{20, 40}));
  EXPECT_TRUE(files::exists(folder / "step-00000050"));
  EXPECT_TRUE(files::exists(folder / "step-00000030"));
}

TEST(Retention, RemovesAbandonedSavesUpToTheNewestValidOneAndNoUnknownName) {
  Folder folder;
  save_alone(folder.path(), 10);
  save_alone(folder.path(), 20);
  const std::vector<std::string> unknown{"best",
                                         "step-7",
                                         "step-00000001-copy",
                                         "step-.tmp-1",
                                         "step-00000001.tmp-x",
                                         "step-0000000a",
                                         "step-00000005.tmp-"};
  for (const auto& name : unknown) files::make_directories(folder / name);
  files::make_directories(folder / "step-00000015.tmp-3");
  files::make_directories(folder / "step-00000020.tmp-0");
  files::make_directories(folder / "step-00000030.tmp-0");
  retain(folder.path(), policy(1, 0));
  for (const auto& name : unknown) EXPECT_TRUE(files::exists(folder / name)) << name;
  EXPECT_FALSE(files::exists(folder / "step-00000015.tmp-3"));
  EXPECT_FALSE(files::exists(folder / "step-00000020.tmp-0"));
  EXPECT_TRUE(files::exists(folder / "step-00000030.tmp-0"));
  EXPECT_EQ(steps_in(folder.path()), (Steps{10, 20}));
}

TEST(Retention, AFolderOfNoCheckpointsIsLeftAsItIs) {
  Folder folder;
  files::make_directories(folder / "step-00000030.tmp-0");
  EXPECT_TRUE(retain(folder.path(), policy(1, 0)).empty());
  EXPECT_TRUE(files::exists(folder / "step-00000030.tmp-0"));
  EXPECT_TRUE(find_checkpoints(folder / "nowhere").empty());
}

TEST(Find, ACheckpointUnderTheNameOfAnotherStepIsPassedOver) {
  Folder folder;
  const auto path = save_alone(folder.path(), 10);
  files::rename(path, folder / "step-00000040");
  std::vector<std::string> passed_over;
  EXPECT_TRUE(find_checkpoints(folder.path(), &passed_over).empty());
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_NE(passed_over[0].find("its manifest is of step 10"), std::string::npos);
}

}  // namespace
}  // namespace coeus::checkpoint
