#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "tests/job/support.h"

namespace coeus {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Load, DefaultsAreThoseOfTheInterface) {
  const JobConfig c = parse_job(kLegal, "x.yaml").config;
  EXPECT_EQ(c.run.cache, "runs/.cache");
  EXPECT_EQ(c.run.seed, 42);
  EXPECT_EQ(c.parallel.dp_shard, -1);
  EXPECT_EQ(c.guards.timeout_seconds, 600);
  EXPECT_EQ(c.guards.startup_timeout_seconds, 1200);
  EXPECT_EQ(c.checkpoint.keep_every, 5000);
  EXPECT_EQ(c.evaluation.steps, 20);
  EXPECT_EQ(c.model->vocab_size(), 2048);
}

TEST(Load, KeysBesideAPresetOverrideIt) {
  const LoadedJob job = parse_job(kLegal, "x.yaml", {"model.dim=128", "model.vocab_size=300"});
  EXPECT_EQ(job.config.model->vocab_size(), 300);
  EXPECT_THAT(job.resolved, HasSubstr("  dim: 128\n"));
  EXPECT_THAT(job.resolved, HasSubstr("  num_layers: 6\n"));
}

TEST(Load, AModelWithoutAVocabularyTakesTheTokenizers) {
  JobConfig c = parse_job(kLegal, "x.yaml", {"model={name: llama, preset: null}"}).config;
  EXPECT_EQ(c.model->vocab_size(), 257);
  check_vocabulary(c, 257);
  EXPECT_THROW(check_vocabulary(c, 258), ConfigError);
}

TEST(Load, ResolvedTextLoadsAgainToTheSameConfiguration) {
  const LoadedJob first =
      parse_job(kLegal, "x.yaml", {"guards.timeout=90s", "data.sources=[\"a b*.txt\", c]"});
  const LoadedJob second = parse_job(first.resolved, "resolved.yaml");
  EXPECT_EQ(second.resolved, first.resolved);
  const ResumeDifferences differences = compare_for_resume(first.config, second.config);
  EXPECT_TRUE(differences.forbidden.empty() && differences.allowed.empty());
}

TEST(Load, AnnotatedTextSaysWhereEachValueComesFrom) {
  const std::string text = parse_job(kLegal, "x.yaml", {"run.seed=7"}).annotated;
  EXPECT_THAT(text, testing::ContainsRegex("seed: 7 +# command line\n"));
  EXPECT_THAT(text, testing::ContainsRegex("steps: 10 +# x.yaml:5:19\n"));
  EXPECT_THAT(text, testing::ContainsRegex("ffn_dim: 768 +# preset debug\n"));
  EXPECT_THAT(text, testing::ContainsRegex("keep: 3 +# default\n"));
}

TEST(Load, AnOverrideOfTokensTakesBackTheStepsOfTheFile) {
  const JobConfig c = parse_job(kLegal, "x.yaml", {"--training.tokens=1M"}).config;
  EXPECT_EQ(c.training.steps, std::nullopt);
  EXPECT_EQ(c.training.tokens, 1'000'000);
}

TEST(Load, ASourceRemembersWhereItWasWritten) {
  const JobConfig c = parse_job(kLegal, "x.yaml").config;
  EXPECT_EQ(c.data.sources.at(0).where, "x.yaml:4:18");
}

TEST(Load, ABaseIsFoundBesideTheFileOrAmongTheBuiltInNames) {
  std::string folder = testing::TempDir() + "/coeus-load-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  files::write_text(folder + "/base.yaml", kLegal);
  files::write_text(folder + "/mine.yaml", "base: base.yaml\ntraining: {epochs: 2}\n");
  const JobConfig c = load_job(folder + "/mine.yaml", {}).config;
  EXPECT_EQ(c.training.epochs, 2);
  EXPECT_EQ(c.training.steps, std::nullopt);
  files::write_text(folder + "/mine.yaml", "base: llama/debug\ndata: {sequence_length: 32}\n");
  EXPECT_EQ(load_job(folder + "/mine.yaml", {}).config.data.sequence_length, 32);
  files::write_text(folder + "/base.yaml", "base: mine.yaml\n");
  files::write_text(folder + "/mine.yaml", "base: base.yaml\n");
  EXPECT_THROW(load_job(folder + "/mine.yaml", {}), ConfigError);
  files::remove_all(folder);
}

TEST(Load, AnUnknownNameIsAnErrorThatSuggests) {
  try {
    load_job("llama/3.1-8", {});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean llama/3.1-8b?"));
  }
}

TEST(Load, AFolderIsNoConfiguration) {
  EXPECT_THROW(load_job(testing::TempDir(), {}), ConfigError);
}

TEST(Load, APresetMayBeAConfigJson) {
  std::string folder = testing::TempDir() + "/coeus-preset-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const JobConfig source = parse_job(kLegal, "x.yaml", {"model.num_layers=3"}).config;
  files::write_text(folder + "/config.json", source.model->hf_config().dump());
  const LoadedJob job =
      parse_job(kLegal, "x.yaml", {"model.preset=" + folder + "/config.json", "model.ffn_dim=512"});
  EXPECT_THAT(job.resolved, HasSubstr("  num_layers: 3\n"));
  EXPECT_THAT(job.resolved, HasSubstr("  ffn_dim: 512\n"));
  files::remove_all(folder);
}

TEST(Load, InputsThatAreNotThereAreListedNotRefused) {
  const JobConfig c = parse_job(kLegal, "x.yaml", {"tokenizer.path=absent/tokenizer.json"}).config;
  EXPECT_THAT(missing_inputs(c),
              ElementsAre("x.yaml:4:18: data.sources.0: no file matches a.txt here",
                          "tokenizer.path: there is no absent/tokenizer.json here"));
}

TEST(Builtin, EveryShippedConfigurationIsLegalAndPrintsToALegalOne) {
  EXPECT_THAT(builtin_config_names(), Contains("llama/debug"));
  for (const std::string& name : builtin_config_names()) {
    const LoadedJob job = load_job(name, {});
    EXPECT_EQ(parse_job(job.resolved, "resolved").resolved, job.resolved) << name;
    EXPECT_TRUE(check_layout(job.config, 8).empty()) << name;
  }
}

TEST(Builtin, EveryPresetHasAConfigurationOfItsName) {
  const std::vector<std::string> names = builtin_config_names();
  for (const std::string& model : model_names()) {
    for (const std::string& preset : make_model_config(model)->presets()) {
      const std::string name = model + "/" + preset;
      EXPECT_THAT(names, Contains(name));
      EXPECT_THAT(builtin_config_text(name), HasSubstr("{name: " + model + ", preset: " + preset));
    }
  }
}

TEST(Builtin, EveryFileOfConfigsIsCompiledIn) {
  const std::string root = std::string(std::getenv("COEUS_SOURCE_DIR")) + "/configs/";
  std::vector<std::string> found;
  for (const files::Path& path : files::glob(root + "**/*.yaml")) {
    const std::string name = path.lexically_relative(root).replace_extension().string();
    EXPECT_EQ(builtin_config_text(name), files::read_text(path));
    found.push_back(name);
  }
  EXPECT_EQ(found.size(), builtin_config_names().size());
}

TEST(Reference, ThePageInDocsIsTheOneTheCodeWrites) {
  const std::string path = std::string(std::getenv("COEUS_SOURCE_DIR")) + "/docs/configuration.md";
  EXPECT_EQ(files::read_text(path), configuration_reference())
      << "write it anew: coeus configs fields > docs/configuration.md";
}

TEST(Reference, EveryFieldHasADoc) {
  const std::string text = configuration_reference();
  EXPECT_EQ(text.find("|  |\n"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("| `training.global_batch_size` | integer, ≥ 1 | `256` |"));
  EXPECT_THAT(text, HasSubstr("| `guards.timeout` | duration, > 0 | `10m` |"));
  EXPECT_THAT(text, HasSubstr("| `data.sources[].weight` |"));
}

TEST(Load, FewerMicroBatchesThanStagesAreWarnedOfOnceTheWorldIsKnown) {
  const std::vector<std::string> overrides = {"parallel.pp=4", "training.global_batch_size=4"};
  EXPECT_TRUE(parse_job(kLegal, "x.yaml", overrides, {}).warnings.empty());
  const auto warnings = parse_job(kLegal, "x.yaml", overrides, {.world_size = 4}).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("2 micro-batches a step for 4 stages"), std::string::npos);
  EXPECT_TRUE(parse_job(kLegal, "x.yaml", {"parallel.pp=4"}, {.world_size = 4}).warnings.empty());
}

}  // namespace
}  // namespace coeus
