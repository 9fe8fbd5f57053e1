#include "metrics/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

namespace coeus::metrics {
namespace {

using testing::ElementsAre;

// A run directory of the test's own.
files::Path run_directory() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const files::Path path = files::Path(testing::TempDir()) / "coeus_metrics" / test->name();
  files::remove_all(path);
  files::make_directories(path);
  return path;
}

std::vector<std::string> lines_of(const files::Path& path) {
  std::vector<std::string> lines;
  std::istringstream text(files::read_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::vector<Json> records_of(const files::Path& path) {
  std::vector<Json> records;
  for (const auto& line : lines_of(path)) records.push_back(parse_json(line, path.string()));
  return records;
}

StepRecord record_of(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.tokens = 1 << 20;
  record.loss = 2.5;
  record.lr = 3e-4;
  record.mfu = 41.25;
  record.memory_peak_bytes = 5'000'000'000;
  return record;
}

MetricsConfig only(std::initializer_list<bool MetricsConfig::*> sinks) {
  MetricsConfig config;
  config.console = config.jsonl = false;
  for (auto sink : sinks) config.*sink = true;
  return config;
}

TEST(Jsonl, HasTheNamesOfTheContractAndNullForWhatIsMissing) {
  const auto run = run_directory();
  for (auto& sink : make_sinks(only({&MetricsConfig::jsonl}), run, nullptr)) {
    sink->write(record_of(10));
    sink->write(ValidationRecord{10, 2.75, 4096, 12.5});
  }
  const auto records = records_of(run / "metrics.jsonl");
  ASSERT_EQ(records.size(), 2u);
  std::vector<std::string> names;
  for (const auto& [name, value] : records[0].items()) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("step", "tokens", "valid_tokens", "samples", "loss", "grad_norm", "lr",
                          "step_seconds", "tokens_per_second", "tokens_per_second_per_device",
                          "tflops_per_device", "mfu", "mfu_causal", "memory_peak_bytes",
                          "data_wait_seconds", "comm_exposed_seconds", "time"));
  EXPECT_EQ(records[0]["step"], 10);
  EXPECT_EQ(records[0]["lr"], 3e-4);
  EXPECT_EQ(records[0]["memory_peak_bytes"], 5'000'000'000);
  EXPECT_EQ(records[0]["mfu"], 41.25);
  EXPECT_TRUE(records[0]["tflops_per_device"].is_null());
  EXPECT_TRUE(records[0]["comm_exposed_seconds"].is_null());
  EXPECT_EQ(records[1], parse_json(R"({"step": 10, "validation_loss": 2.75,
                                       "validation_tokens": 4096, "time": 12.5})",
                                   "expected"));
}

TEST(Jsonl, ALossThatIsNoNumberIsNull) {
  const auto run = run_directory();
  auto record = record_of(1);
  record.loss = std::nan("");
  record.grad_norm = std::numeric_limits<double>::infinity();
  make_sinks(only({&MetricsConfig::jsonl}), run, nullptr).front()->write(record);
  const auto records = records_of(run / "metrics.jsonl");
  EXPECT_TRUE(records.at(0)["loss"].is_null());
  EXPECT_TRUE(records.at(0)["grad_norm"].is_null());
}

TEST(Jsonl, AResumedRunAppendsAndKeepsTheLinesOfTheEarlierAttempt) {
  const auto run = run_directory();
  for (const std::vector<std::int64_t>& attempt :
       {std::vector<std::int64_t>{1, 10, 20}, {11, 20}}) {
    const auto sinks = make_sinks(only({&MetricsConfig::jsonl}), run, nullptr);
    for (auto step : attempt) sinks.front()->write(record_of(step));
  }
  std::vector<std::int64_t> steps;
  for (const auto& record : records_of(run / "metrics.jsonl")) steps.push_back(record["step"]);
  EXPECT_THAT(steps, ElementsAre(1, 10, 20, 11, 20));
}

TEST(Jsonl, ALineThatACrashCutShortIsRemovedBeforeAppending) {
  for (const std::string& torn : {std::string("{\"step\": 2, \"lo"), std::string(10000, 'x')}) {
    const auto run = run_directory();
    make_sinks(only({&MetricsConfig::jsonl}), run, nullptr).front()->write(record_of(1));
    const std::string whole = files::read_text(run / "metrics.jsonl");
    files::write_text(run / "metrics.jsonl", whole + torn);
    make_sinks(only({&MetricsConfig::jsonl}), run, nullptr).front()->write(record_of(2));
    const auto records = records_of(run / "metrics.jsonl");
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1]["step"], 2);
  }
  const auto run = run_directory();
  files::write_text(run / "metrics.jsonl", "{");
  make_sinks(only({&MetricsConfig::jsonl}), run, nullptr);
  EXPECT_EQ(files::read_text(run / "metrics.jsonl"), "");
}

TEST(Csv, HasOneHeaderOverTwoAttemptsAndEmptyCellsForWhatIsMissing) {
  const auto run = run_directory();
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto sinks = make_sinks(only({&MetricsConfig::csv}), run, nullptr);
    sinks.front()->write(record_of(attempt));
    sinks.front()->write(ValidationRecord{attempt, 2.75, 4096, 12.5});
  }
  const auto lines = lines_of(run / "metrics.csv");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], testing::StartsWith("step,tokens,valid_tokens,"));
  EXPECT_THAT(lines[0], testing::EndsWith(",time,validation_loss,validation_tokens"));
  EXPECT_THAT(lines[1], testing::HasSubstr(",2.5,"));
  EXPECT_EQ(lines[4], "1,,,,,,,,,,,,,,,,12.5,2.75,4096");
  for (const auto& line : lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 18) << line;
  }
}

TEST(Sinks, AreThoseThatTheConfigurationAsksFor) {
  const auto run = run_directory();
  EXPECT_EQ(make_sinks(only({}), run, nullptr).size(), 0u);
  EXPECT_THAT(files::list(run), testing::IsEmpty());
  make_sinks(only({&MetricsConfig::csv, &MetricsConfig::tensorboard}), run, nullptr);
  EXPECT_TRUE(files::exists(run / "metrics.csv"));
  EXPECT_EQ(files::list(run / "tensorboard").size(), 1u);
}

TEST(Events, OfManyThreadsAreWholeLines) {
  const auto run = run_directory();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        append_event(run, "save", {{"step", i}, {"why", std::string(300, 'a')}});
    });
  }
  for (auto& thread : threads) thread.join();
  const auto events = records_of(run / "events.jsonl");
  EXPECT_EQ(events.size(), 200u);
  for (const auto& event : events) {
    EXPECT_EQ(event["event"], "save");
    EXPECT_GT(event["time"].get<double>(), 1.6e9);
    EXPECT_TRUE(event.contains("step"));
  }
}

}  // namespace
}  // namespace coeus::metrics
