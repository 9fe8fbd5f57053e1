#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace coeus::checkpoint {

// A folder of the test's own, removed at its end.
class Folder {
 public:
  Folder() {
    static std::atomic<int> count{0};
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = files::Path(testing::TempDir()) /
            fmt::format("coeus-{}-{}-{}", test->name(), getpid(), count++);
    files::remove_all(path_);
    files::make_directories(path_);
  }
  ~Folder() { files::remove_all(path_); }
  const files::Path& path() const { return path_; }
  files::Path operator/(const std::string& name) const { return path_ / name; }

 private:
  files::Path path_;
};

// Runs `body` on n threads that talk through Peers; returns what each rank threw, "" for nothing.
inline std::vector<std::string> run_ranks(int n, const std::function<void(const Peers&)>& body) {
  std::barrier<> barrier(n);
  std::vector<std::string> slots(n), thrown(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      Peers peers{rank, n, {}, [&] { barrier.arrive_and_wait(); }};
      peers.all_gather = [&, rank](const std::string& mine) {
        slots[rank] = mine;
        barrier.arrive_and_wait();
        auto all = slots;
        barrier.arrive_and_wait();
        return all;
      };
      try {
        body(peers);
      } catch (const CheckpointError& e) {
        thrown[rank] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  return thrown;
}

// Which elements of all tensors of a set, laid end to end, a rank holds.
enum class Deal { even, blocks };  // one contiguous part; pieces of 37 in turn

struct Range {
  std::size_t tensor;
  std::int64_t offset, count;
};
inline std::vector<Range> deal(const TensorSet& set, Deal how, int rank, int size) {
  std::int64_t total = 0;
  for (const auto& t : set.tensors) total += t.num_elements();
  const std::int64_t piece = how == Deal::even ? (total + size - 1) / size : 37;
  std::vector<Range> ranges;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    const std::int64_t count = set.tensors[i].num_elements();
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t index = (start + at) / piece;
      const std::int64_t end = std::min(count, (index + 1) * piece - start);
      if (index % size == rank) ranges.push_back({i, at, end - at});
      at = end;
    }
    start += count;
  }
  return ranges;
}

inline std::byte value_of(const std::string& set, const std::string& tensor, std::int64_t byte) {
  return static_cast<std::byte>(std::hash<std::string>()(set + tensor) + 31 * byte + byte / 251);
}

// The sets of a small model: bf16 weights, one of them fp32, with fp32 master and moment.
inline std::vector<TensorSet> sample_sets() {
  std::vector<TensorInfo> shapes{{"embed.weight", DType::F32, {50, 8}},
                                 {"blocks.0.q_proj.weight", DType::F32, {16, 8}},
                                 {"blocks.0.router.weight", DType::F32, {3, 8}},
                                 {"blocks.0.none", DType::F32, {0, 8}},
                                 {"norm.weight", DType::F32, {8}},
                                 {"scalar", DType::F32, {}}};
  TensorSet master{"optimizer/master", shapes}, moment{"optimizer/exp_avg", shapes};
  TensorSet model{"model", shapes};
  for (auto& t : model.tensors) {
    if (t.name != "blocks.0.router.weight") t.dtype = DType::BF16;
  }
  return {model, master, moment};
}

// One rank's part of the sets in memory of its own, and its runs.
struct Holding {
  std::vector<std::vector<std::byte>> memory;
  std::vector<WriteRun> runs;

  Holding(const std::vector<TensorSet>& sets, Deal how, int rank, int size,
          const std::string& salt = "") {
    for (const auto& set : sets) {
      for (const auto& r : deal(set, how, rank, size)) {
        const auto& t = set.tensors[r.tensor];
        const std::int64_t width = size_of(t.dtype);
        auto& bytes = memory.emplace_back(r.count * width);
        for (std::int64_t b = 0; b < r.count * width; ++b) {
          bytes[b] = value_of(salt + set.prefix, t.name, r.offset * width + b);
        }
        runs.push_back({set.prefix, t.name, r.offset, bytes});
      }
    }
  }
};

inline SaveRequest sample_request(const files::Path& directory, std::int64_t step) {
  SaveRequest request;
  request.directory = directory;
  request.step = step;
  request.sets = sample_sets();
  request.texts = {{"config.json", R"({"model_type": "llama"})"},
                   {"tokenizer.json", "{}"},
                   {"train_state.json", fmt::format(R"({{"step": {}}})", step)}};
  request.stamps = Json{{"version", "0.1.0"}};
  request.max_file_bytes = 1000;
  return request;
}

inline files::Path save_alone(const files::Path& directory, std::int64_t step) {
  auto request = sample_request(directory, step);
  const Holding holding(request.sets, Deal::even, 0, 1);
  request.runs = holding.runs;
  return save(request, Peers{});
}

// Reads this rank's deal of all sets and compares it with what Holding wrote.
inline void expect_reads_back(const files::Path& path, Deal how, const Peers& peers,
                              Verify verify = Verify::full) {
  const Reader reader = Reader::open(path);
  std::vector<std::vector<std::byte>> memory;
  std::vector<ReadRun> runs;
  const auto sets = sample_sets();
  const Holding expected(sets, how, peers.rank, peers.size);
  for (std::size_t i = 0; i < expected.runs.size(); ++i) {
    const WriteRun& w = expected.runs[i];
    auto& bytes = memory.emplace_back(w.bytes.size());
    const bool bf16 = w.set == "model" && w.tensor != "blocks.0.router.weight";
    runs.push_back({w.set, w.tensor, w.offset, bytes, bf16 ? DType::BF16 : DType::F32});
  }
  reader.read(runs, peers, verify);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    EXPECT_EQ(memory[i], expected.memory[i]) << expected.runs[i].set << expected.runs[i].tensor;
  }
}

inline std::vector<std::string> all_files(const files::Path& folder, const std::string& in = "") {
  std::vector<std::string> names;
  for (const auto& name : files::list(folder / in)) {
    const std::string relative = in.empty() ? name : in + "/" + name;
    if (files::is_directory(folder / relative)) {
      const auto inner = all_files(folder, relative);
      names.insert(names.end(), inner.begin(), inner.end());
    } else {
      names.push_back(relative);
    }
  }
  return names;
}

inline void flip_byte(const files::Path& path, std::uint64_t at) {
  const auto file = files::File::open_to_write(path);
  std::byte b;
  file.read(at, std::span(&b, 1));
  b ^= std::byte{0x10};
  file.write(at, std::span(&b, 1));
}

// The text of what `body` throws; "" if it does not.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CheckpointError& e) {
    return *e.what() ? e.what() : "(no text)";
  }
  return "";
}

}  // namespace coeus::checkpoint
