#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "tests/job/support.h"

namespace coeus {
namespace {

using testing::HasSubstr;

class InitializeFrom : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/coeus-initialize-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    const JobConfig source =
        parse_job(kLegal, "x.yaml", {"model.num_layers=3", "model.ffn_dim=512"}).config;
    files::write_text(folder_ / "config.json", source.model->hf_config().dump());
    files::write_text(folder_ / "tokenizer.json", "{}");
  }
  void TearDown() override { files::remove_all(folder_); }
  std::string from() const { return "checkpoint.initialize_from=" + folder_.string(); }
  files::Path folder_;
};

TEST_F(InitializeFrom, AbsentModelAndTokenizerComeFromTheFolder) {
  const LoadedJob job = parse_job(kLegal, "x.yaml", {"model=null", "tokenizer=null", from()});
  EXPECT_THAT(job.resolved, HasSubstr("  num_layers: 3\n"));
  EXPECT_EQ(job.config.tokenizer.path, folder_.string());
}

TEST_F(InitializeFrom, EveryKeyThatDiffersIsListed) {
  const std::string faults = faults_of(kLegal, {from()});
  const std::string where = (folder_ / "config.json").string();
  EXPECT_EQ(faults, "x.yaml:2:8: model.num_layers: is 6, but " + where + " has 3\n" +
                        "x.yaml:2:8: model.ffn_dim: is 768, but " + where + " has 512");
  EXPECT_EQ(faults_of(kLegal, {from(), "model.num_layers=3", "model.ffn_dim=512"}), "");
}

TEST_F(InitializeFrom, AnotherTokenizerIsRefused) {
  files::write_text(folder_ / "other.json", "{\"x\": 1}");
  EXPECT_THAT(faults_of(kLegal, {from(), "model=null",
                                 "tokenizer.path=" + (folder_ / "other.json").string()}),
              HasSubstr("differs from the tokenizer of"));
}

TEST_F(InitializeFrom, AFolderWithoutAModelIsAFaultOnlyWhereItIsNeeded) {
  files::remove(folder_ / "config.json");
  EXPECT_EQ(parse_job(kLegal, "x.yaml", {from()}).warnings.size(), 1u);
  EXPECT_THAT(faults_of(kLegal, {from(), "model=null"}),
              HasSubstr("checkpoint.initialize_from: there is no"));
}

TEST_F(InitializeFrom, AConfigJsonThatIsNoneIsAFault) {
  files::write_text(folder_ / "config.json", "{\"model_type\": \"gpt2\"}");
  EXPECT_THAT(faults_of(kLegal, {from()}), HasSubstr("command line: checkpoint.initialize_from:"));
  files::write_text(folder_ / "config.json", "{");
  EXPECT_THAT(faults_of(kLegal, {from()}), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace coeus
