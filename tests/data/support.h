#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "data/dataset.h"
#include "data/tokenizer.h"

namespace coeus::data::test {

// A folder of this test alone, empty at first and gone afterwards.
class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        fmt::format("coeus-{}-{}-{}", test->test_suite_name(), test->name(), ::getpid());
    std::replace(name.begin(), name.end(), '/', '-');  // of parameters
    path_ = files::Path(testing::TempDir()) / name;
    files::remove_all(path_);
    files::make_directories(path_);
  }
  ~Folder() { files::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view text) const {
    files::write_text(path_ / name, text);
    return *this / name;
  }

 private:
  files::Path path_;
};

template <class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Words of a few letters, `bytes` of them or a little more; the same for the same seed.
inline std::string random_text(std::uint64_t seed, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const std::uint64_t bits = seed >> 33;
    text.append(1 + bits % 7, static_cast<char>('a' + bits / 7 % 26));
    text += bits % 11 == 0 ? "\n" : " ";
  }
  return text;
}

struct Sample {
  std::vector<std::int64_t> tokens, labels, positions;
  SampleInfo info;
};
inline Sample read(const Dataset& dataset, std::int64_t n) {
  const auto length = static_cast<std::size_t>(dataset.sequence_length());
  Sample s{std::vector<std::int64_t>(length, -7),
           std::vector<std::int64_t>(length, -7),
           std::vector<std::int64_t>(length, -7),
           {}};
  s.info = dataset.read(n, {s.tokens.data(), s.labels.data(), s.positions.data()});
  return s;
}

inline DatasetOptions options_for(const Folder& folder, const std::vector<std::string>& sources,
                                  std::int64_t sequence_length) {
  DatasetOptions options;
  for (const std::string& source : sources) {
    options.data.sources.push_back({.path = source, .weight = {}, .repeats = {}, .where = ""});
  }
  options.data.sequence_length = sequence_length;
  options.cache = folder / "cache";
  return options;
}

}  // namespace coeus::data::test
