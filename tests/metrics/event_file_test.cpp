#include "metrics/sinks/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "metrics/record.h"

namespace coeus::metrics {
namespace {

using testing::Contains;
using testing::Pair;

TEST(Crc32c, EqualsThePublishedVectors) {
  // RFC 3720 B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TfRecord, OfTheFirstEventIsByteForByteTensorBoards) {
  // The first record of an event file by its own writer, at time 0: 15 payload bytes after
  // wall_time.
  const std::string event = file_version_event(0.0);
  EXPECT_EQ(event, std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d", 11) + "brain.Event:2");
  const std::string record = tfrecord(event);
  ASSERT_EQ(record.size(), 8 + 4 + event.size() + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  // Every writer of 24-byte first events starts with these twelve bytes.
  EXPECT_EQ(record.substr(8, 4), "\xa3\x7f\x4b\x22");
}

// An independent reader of what was written.
struct Reader {
  std::string bytes;
  std::size_t at = 0;
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string take(std::size_t n) {
    at += n;
    return bytes.substr(at - n, n);
  }
  bool done() const { return at >= bytes.size(); }
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

void read_value(Reader value, Event& event) {
  std::string tag;
  float number = 0;
  while (!value.done()) {
    switch (value.varint()) {
      case 1 << 3 | 2:
        tag = value.take(value.varint());
        break;
      case 2 << 3 | 5:
        number = value.fixed<float>();
        break;
      default:
        FAIL() << "unknown field of Value";
    }
  }
  event.scalars[tag] = number;
}

void read_event(Reader message, Event& event) {
  while (!message.done()) {
    switch (message.varint()) {
      case 1 << 3 | 1:
        event.wall_time = message.fixed<double>();
        break;
      case 2 << 3 | 0:
        event.step = static_cast<std::int64_t>(message.varint());
        break;
      case 3 << 3 | 2:
        event.version = message.take(message.varint());
        break;
      case 5 << 3 | 2: {
        Reader summary{message.take(message.varint())};
        while (!summary.done()) {
          ASSERT_EQ(summary.varint(), 1u << 3 | 2u);
          read_value({summary.take(summary.varint())}, event);
        }
        break;
      }
      default:
        FAIL() << "unknown field of Event";
    }
  }
}

std::vector<Event> read_events(const files::Path& path) {
  Reader file{files::read_text(path)};
  std::vector<Event> events;
  while (!file.done()) {
    const auto length = file.fixed<std::uint64_t>();
    const std::string length_bytes = file.bytes.substr(file.at - 8, 8);
    EXPECT_EQ(file.fixed<std::uint32_t>(), masked_crc32c(length_bytes));
    const std::string payload = file.take(length);
    EXPECT_EQ(file.fixed<std::uint32_t>(), masked_crc32c(payload));
    read_event({payload}, events.emplace_back());
  }
  return events;
}

TEST(TensorBoard, ReadsBackTorchTitansTags) {
  const files::Path run = files::Path(testing::TempDir()) / "coeus_metrics_tensorboard";
  files::remove_all(run);
  StepRecord record;
  record.step = 300;
  record.time = 1.7e9 + 0.25;
  record.loss = 2.5;
  record.lr = 3e-4;
  record.tokens_per_second_per_device = 1000;
  record.step_seconds = 2;
  record.data_wait_seconds = 0.5;
  record.mfu = 40;
  {
    MetricsConfig config;
    config.console = config.jsonl = false;
    config.tensorboard = true;
    const auto sinks = make_sinks(config, run, nullptr);
    sinks.front()->write(record);
    sinks.front()->write(ValidationRecord{300, 2.75, 10, 1.7e9});
  }
  const auto names = files::list(run / "tensorboard");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_THAT(names[0], testing::StartsWith("events.out.tfevents."));
  const auto events = read_events(run / "tensorboard" / names[0]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[1].wall_time, 1.7e9 + 0.25);
  EXPECT_THAT(events[1].scalars, Contains(Pair("loss_metrics/global_avg_loss", 2.5f)));
  EXPECT_THAT(events[1].scalars, Contains(Pair("lr", 3e-4f)));
  EXPECT_THAT(events[1].scalars, Contains(Pair("throughput(tps)", 1000.0f)));
  EXPECT_THAT(events[1].scalars, Contains(Pair("time_metrics/data_loading(%)", 25.0f)));
  EXPECT_THAT(events[1].scalars, Contains(Pair("mfu(%)", 40.0f)));
  EXPECT_FALSE(events[1].scalars.contains("tflops"));
  EXPECT_THAT(events[2].scalars, testing::ElementsAre(Pair("validation_metrics/loss", 2.75f)));
}

TEST(TensorBoard, ASecondAttemptWritesAFileOfItsOwn) {
  const files::Path run = files::Path(testing::TempDir()) / "coeus_metrics_two_attempts";
  files::remove_all(run);
  const EventFile first(run), second(run);
  EXPECT_NE(first.path(), second.path());
}

}  // namespace
}  // namespace coeus::metrics
