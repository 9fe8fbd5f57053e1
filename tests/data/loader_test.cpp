#include "data/loader.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <numeric>
#include <thread>

#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

// Token i of sample n is 100n + i.
class Counting : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  std::int64_t num_tokens() const override { return 4000; }
  std::int64_t sequence_length() const override { return 4; }
  std::int64_t index_of(std::int64_t n) const override { return n; }
  SampleInfo read(std::int64_t n, SampleView into) const override {
    if (n == 13) throw DataError("the/file.tokens: sample 13 is damaged");
    if (gate != nullptr) gate->wait();
    std::iota(into.tokens, into.tokens + 4, 100 * n);
    std::iota(into.labels, into.labels + 4, 100 * n + 1);
    std::iota(into.positions, into.positions + 4, 0);
    return {.valid_tokens = n % 5, .document_lengths = {1, 3}};
  }
  std::latch* gate = nullptr;
};

struct Buffers {
  explicit Buffers(std::size_t sequences)
      : tokens(4 * sequences, -1), labels(4 * sequences, -1), positions(4 * sequences, -1) {}
  HostBuffers view() { return {tokens.data(), labels.data(), positions.data()}; }
  std::vector<std::int64_t> tokens, labels, positions;
};

TEST(Loader, FillsEachBufferWithItsSamplesWhateverTheOrderOfWaiting) {
  const Counting dataset;
  for (const std::int64_t threads : {0, 1, 3, 8}) {
    Loader loader(dataset, threads, 1000);
    Buffers a(3), b(2);
    const auto first = loader.start({7, 2, 9}, a.view());
    const auto second = loader.start({4, 4}, b.view());
    const LoadedSequences of_b = loader.wait(second), of_a = loader.wait(first);
    EXPECT_EQ(a.tokens, (std::vector<std::int64_t>{700, 701, 702, 703, 200, 201, 202, 203, 900, 901,
                                                   902, 903}));
    EXPECT_EQ(b.labels, (std::vector<std::int64_t>{401, 402, 403, 404, 401, 402, 403, 404}));
    EXPECT_EQ(of_a.valid_tokens, 2 + 2 + 4);
    EXPECT_EQ(of_b.valid_tokens, 8);
    ASSERT_EQ(of_a.samples.size(), 3u);
    EXPECT_EQ(of_a.samples[1].document_lengths, (std::vector<std::int32_t>{1, 3}));
  }
}

TEST(Loader, FillsIgnoredSequencesFromTheEndOn) {
  const Counting dataset;
  Loader loader(dataset, 2, 20);
  Buffers buffers(2);
  const LoadedSequences loaded = loader.wait(loader.start({19, 20}, buffers.view()));
  EXPECT_EQ(buffers.tokens[0], 1900);
  for (std::size_t i = 4; i < 8; ++i) {
    EXPECT_EQ(buffers.tokens[i], 0);
    EXPECT_EQ(buffers.labels[i], kIgnoredLabel);
    EXPECT_EQ(buffers.positions[i], static_cast<std::int64_t>(i) - 4);
  }
  EXPECT_EQ(loaded.valid_tokens, 4);
  EXPECT_EQ(loaded.samples[1].valid_tokens, 0);
}

TEST(Loader, RethrowsAReadersFailureAtThatTicketAndGoesOn) {
  const Counting dataset;
  Loader loader(dataset, 2, 1000);
  Buffers bad(2), good(1);
  const auto first = loader.start({1, 13}, bad.view());
  const auto second = loader.start({2}, good.view());
  EXPECT_EQ(message_of<DataError>([&] { loader.wait(first); }),
            "the/file.tokens: sample 13 is damaged");
  EXPECT_EQ(loader.wait(second).valid_tokens, 2);
}

TEST(Loader, MeasuresHowLongAStepWaited) {
  Counting dataset;
  std::latch gate(1);
  dataset.gate = &gate;
  Loader loader(dataset, 1, 1000);
  Buffers buffers(1);
  const auto ticket = loader.start({1}, buffers.view());
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.count_down();
  });
  EXPECT_GT(loader.wait(ticket).wait_seconds, 0.01);
}

TEST(Loader, TakesEachTicketOnce) {
  const Counting dataset;
  Loader loader(dataset, 1, 1000);
  Buffers buffers(1);
  const auto ticket = loader.start({1}, buffers.view());
  loader.wait(ticket);
  EXPECT_THROW(loader.wait(ticket), AssertionError);
}

TEST(Loader, WritesNothingAfterItsEnd) {
  const Counting dataset;
  Buffers buffers(500);
  {
    Loader loader(dataset, 2, 1000);
    std::vector<std::int64_t> numbers(500);
    std::iota(numbers.begin(), numbers.end(), 100);
    loader.start(numbers, buffers.view());
  }
  const auto at_the_end = buffers.tokens;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(buffers.tokens, at_the_end);
}

}  // namespace
}  // namespace coeus::data::test
