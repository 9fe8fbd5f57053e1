#include "app/light/commands.h"
#include "tests/checkpoint/support.h"

namespace coeus::checkpoint {
namespace {

struct Outcome {
  int code;
  std::string text;
};
Outcome ckpt(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  int code = -1;
  try {
    code = app::ckpt(words);
  } catch (const Error& e) {
    code = static_cast<int>(e.code());
  }
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout()};
}

Json parsed(const Outcome& outcome) {
  return parse_json<CheckpointError>(outcome.text, "stdout");
}

TEST(CkptCommand, ListsShowsAndVerifiesARun) {
  Folder run;
  save_alone(run / "checkpoints", 10);
  const auto newest = save_alone(run / "checkpoints", 20);
  const auto ls = ckpt({"ls", run.path().string()});
  EXPECT_EQ(ls.code, 0);
  EXPECT_NE(ls.text.find("STEP"), std::string::npos);
  EXPECT_NE(ls.text.find(newest.string()), std::string::npos);
  EXPECT_EQ(parsed(ckpt({"ls", "--json", run.path().string()}))["checkpoints"].size(), 2u);

  const auto show = ckpt({"show", run.path().string()});
  EXPECT_EQ(show.code, 0);
  EXPECT_NE(show.text.find("blocks.0.q_proj.weight  BF16   16 x 8"), std::string::npos)
      << show.text;
  const Json json = parsed(ckpt({"show", newest.string(), "--json"}));
  EXPECT_EQ(json["train_state"]["step"], 20);
  EXPECT_EQ(json["sets"]["optimizer/master"][0]["name"], "embed.weight");

  const auto verify = ckpt({"verify", run.path().string()});
  EXPECT_EQ(verify.code, 0);
  EXPECT_EQ(parsed(ckpt({"verify", "--json", run.path().string()})).size(), 2u);
}

TEST(CkptCommand, LeavesWithFourOnFaultsAndNamesTheFile) {
  Folder run;
  const auto path = save_alone(run / "checkpoints", 10);
  const std::string file = "optimizer/master-00001-of-00002.safetensors";
  flip_byte(path / file, files::File::open_to_read(path / file).size() - 1);
  const auto verify = ckpt({"verify", path.string()});
  EXPECT_EQ(verify.code, 4);
  EXPECT_NE(verify.text.find("FAULTY"), std::string::npos);
  EXPECT_NE(verify.text.find((path / file).string() + ": bytes"), std::string::npos) << verify.text;
  EXPECT_EQ(parsed(ckpt({"verify", run.path().string(), "--json"}))[0]["faults"].size(), 1u);

  EXPECT_EQ(ckpt({"ls", run.path().string()}).code, 0);  // its sizes are right
  files::make_directories(run / "checkpoints" / "step-00000020.tmp-0");
  EXPECT_EQ(ckpt({"ls", run.path().string()}).code, 0);  // unfinished is no fault
  files::remove(path / "config.json");
  EXPECT_EQ(ckpt({"ls", run.path().string()}).code, 4);
  EXPECT_EQ(ckpt({"show", run.path().string()}).code, 4);
  EXPECT_EQ(ckpt({"show", (run / "nowhere").string()}).code, 4);
  EXPECT_EQ(ckpt({"ls", (path / "optimizer").string()}).code, 4);
}

TEST(CkptCommand, UnknownWordsAreUsageErrorsAndHelpIsNone) {
  EXPECT_EQ(ckpt({"list", "x"}).code, 2);
  EXPECT_EQ(ckpt({}).code, 2);
  EXPECT_EQ(ckpt({"ls"}).code, 2);
  EXPECT_EQ(ckpt({"ls", "a", "b"}).code, 2);
  const auto help = ckpt({"verify", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.text.find("--json"), std::string::npos);
}

}  // namespace
}  // namespace coeus::checkpoint
