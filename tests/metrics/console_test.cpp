#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "metrics/record.h"

namespace coeus::metrics {
namespace {

StepRecord full_record() {
  StepRecord record;
  record.step = 10;
  record.last_step = 1000;
  record.loss = 8.04912;
  record.grad_norm = 1.25;
  record.memory_peak_bytes = 3'221'225'472;
  record.memory_fraction = 0.0213;
  record.tokens_per_second_per_device = 31768.4;
  record.tflops_per_device = 123.456;
  record.mfu = 12.483;
  record.eta_seconds = 3725;
  return record;
}

std::unique_ptr<Sink> console_of(std::shared_ptr<Logger> logger) {
  MetricsConfig config;
  config.jsonl = false;
  return std::move(make_sinks(config, "unused", std::move(logger)).front());
}

// What a logger with a plain stream, which stands for a file, gets.
template <class Record>
std::string plain_line(const Record& record, const std::string& level = "info") {
  std::ostringstream text;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
  auto logger = std::make_shared<Logger>("test", sink);
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::from_str(level));
  console_of(logger)->write(record);
  return text.str();
}

TEST(Console, ALineHasTorchTitansOrder) {
  EXPECT_EQ(plain_line(full_record()),
            "step: 10/1000  loss:  8.04912  grad_norm:  1.2500  memory:  3.00GiB(2.13%)  "
            "tps: 31,768  tflops: 123.46  mfu: 12.48%  eta: 1h02m\n");
}

TEST(Console, WhatIsNotKnownIsLeftOut) {
  StepRecord record;
  record.step = 1;
  record.loss = std::nan("");
  EXPECT_EQ(plain_line(record), "step:  1  loss:      nan  grad_norm:  0.0000  tps: 0\n");
}

TEST(Console, ValidationIsALineOfItsOwn) {
  EXPECT_EQ(plain_line(ValidationRecord{20, 2.5, 1234567, 0}),
            "validate step: 20  loss:  2.50000  tokens: 1,234,567\n");
}

TEST(Console, AQuietLoggerGetsNothing) {
  EXPECT_EQ(plain_line(full_record(), "warn"), "");
}

TEST(Console, DurationsHaveTheTwoUnitsThatMatter) {
  const auto eta = [](double seconds) {
    auto record = full_record();
    record.eta_seconds = seconds;
    const std::string line = plain_line(record);
    return line.substr(line.find("eta: ") + 5);
  };
  EXPECT_EQ(eta(0.4), "0s\n");
  EXPECT_EQ(eta(59.6), "1m00s\n");
  EXPECT_EQ(eta(3599), "59m59s\n");
  EXPECT_EQ(eta(90000), "1d01h\n");
  EXPECT_EQ(eta(INFINITY), "?\n");
}

TEST(Console, ColoursGoToTheTerminalOnlyAndNotWhenSwitchedOff) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> terminal(std::tmpfile(), std::fclose);
  using Terminal = spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>;
  struct ToFile : Terminal {
    ToFile(std::FILE* file, spdlog::color_mode mode) : Terminal(file, mode) {}
  };
  for (const auto mode : {spdlog::color_mode::always, spdlog::color_mode::never}) {
    std::rewind(terminal.get());
    std::ostringstream file;
    std::vector<spdlog::sink_ptr> sinks = {std::make_shared<ToFile>(terminal.get(), mode),
                                           std::make_shared<spdlog::sinks::ostream_sink_mt>(file)};
    auto logger = std::make_shared<Logger>("test", sinks.begin(), sinks.end());
    logger->set_pattern("%v");
    console_of(logger)->write(full_record());
    std::rewind(terminal.get());
    std::string shown(1000, '\0');
    shown.resize(std::fread(shown.data(), 1, shown.size(), terminal.get()));
    EXPECT_EQ(file.str().find('\033'), std::string::npos);
    if (mode == spdlog::color_mode::always) {
      EXPECT_THAT(shown, testing::HasSubstr("\033[32mloss:  8.04912\033[0m"));
    } else {
      EXPECT_THAT(shown, testing::StartsWith("step: 10/1000  loss:"));
    }
  }
}

}  // namespace
}  // namespace coeus::metrics
