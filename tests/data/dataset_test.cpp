#include "data/dataset.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/json.h"
#include "data/packing.h"
#include "data/permutation.h"
#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// The stream that byte tokens of these documents make.
Numbers stream_of(const std::vector<std::string>& documents) {
  Numbers tokens;
  for (const std::string& text : documents) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    tokens.push_back(256);
  }
  return tokens;
}

std::string write_lines(const Folder& folder, const std::string& name,
                        const std::vector<std::string>& documents) {
  std::string lines;
  for (const std::string& text : documents) lines += Json{{"text", text}}.dump() + "\n";
  return folder.write(name, lines);
}

std::vector<std::string> random_documents(std::size_t count) {
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < count; ++i) {
    documents.push_back(random_text(i, 1 + mix(i) % 90) + std::to_string(i));
  }
  return documents;
}

std::unique_ptr<Dataset> open(const DatasetOptions& options, Split split = Split::train) {
  return open_dataset(options, load_tokenizer("byte"), split);
}

TEST(Permutation, HitsEveryIndexOnceForAnySizeAndKey) {
  for (std::uint64_t size = 1; size < 300; ++size) {
    std::set<std::uint64_t> hit;
    for (std::uint64_t i = 0; i < size; ++i) hit.insert(permuted(i, size, size * 7919));
    ASSERT_EQ(hit.size(), size);
    ASSERT_LT(*hit.rbegin(), size);
  }
  std::vector<bool> hit(1000003);
  for (std::uint64_t i = 0; i < hit.size(); ++i) hit[permuted(i, hit.size(), 5)] = true;
  EXPECT_EQ(std::count(hit.begin(), hit.end(), true), std::ssize(hit));
  EXPECT_LT(permuted(~std::uint64_t{0} / 4, std::uint64_t{1} << 62, 5), std::uint64_t{1} << 62);
}

TEST(Permutation, LooksShuffled) {
  // Neighbours land about a third of the range apart, as independent positions do.
  constexpr std::uint64_t kSize = 10000;
  double distance = 0;
  std::uint64_t fixed = 0;
  for (std::uint64_t i = 0; i + 1 < kSize; ++i) {
    const auto a = static_cast<double>(permuted(i, kSize, 1));
    distance += std::abs(a - static_cast<double>(permuted(i + 1, kSize, 1)));
    fixed += permuted(i, kSize, 1) == permuted(i, kSize, 2);
  }
  EXPECT_NEAR(distance / kSize / kSize, 1.0 / 3, 0.02);
  EXPECT_LT(fixed, 20u) << "keys give different orders";
}

TEST(Concat, SamplesAreTheStreamAndShareOneToken) {
  const Folder folder;
  const std::vector<std::string> documents = random_documents(40);
  auto options = options_for(folder, {write_lines(folder, "a.jsonl", documents)}, 16);
  options.order = DatasetOptions::Order::sequential;
  const auto dataset = open(options);
  const Numbers stream = stream_of(documents);
  ASSERT_EQ(dataset->num_tokens(), std::ssize(stream));
  ASSERT_EQ(dataset->size(), (std::ssize(stream) - 1) / 16);
  for (std::int64_t n = 0; n < dataset->size(); ++n) {
    const Sample s = read(*dataset, n);
    const auto at = stream.begin() + n * 16;
    EXPECT_EQ(s.tokens, Numbers(at, at + 16));
    EXPECT_EQ(s.labels, Numbers(at + 1, at + 17));
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(s.positions[i], i);
    EXPECT_EQ(s.info.valid_tokens, 16);
    EXPECT_TRUE(s.info.document_lengths.empty());
  }
}

TEST(Concat, NeedsOneTokenMoreThanItsSamples) {
  const Folder folder;
  const std::string path = folder.write("a.txt", "0123456789");  // 11 tokens with EOS
  EXPECT_EQ(open(options_for(folder, {path}, 10))->size(), 1);
  EXPECT_EQ(open(options_for(folder, {path}, 5))->size(), 2);
  auto options = options_for(folder, {path}, 11);
  options.data.sources[0].where = "c.yaml:7:13";
  const auto what = message_of<DataError>([&] { open(options); });
  EXPECT_TRUE(what.starts_with("c.yaml:7:13: data.sources: 11 tokens")) << what;
}

TEST(Order, VisitsEverySampleOnceAnEpochAndDependsOnSeedAndEpoch) {
  const Folder folder;
  auto options = options_for(folder, {folder.write("a.txt", random_text(1, 5000))}, 16);
  const auto dataset = open(options);
  const std::int64_t size = dataset->size();
  std::vector<Numbers> epochs;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    Numbers order(size);
    for (std::int64_t i = 0; i < size; ++i) order[i] = dataset->index_of(epoch * size + i);
    epochs.push_back(order);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  options.seed = 43;
  const auto other = open(options);
  Numbers order(size);
  for (std::int64_t i = 0; i < size; ++i) order[i] = other->index_of(i);
  EXPECT_NE(order, epochs[0]);
}

TEST(Order, ThreeEpochsWithResumesAtRandomPositionsSeeEachTokenRangeThreeTimes) {
  for (const Packing packing : {Packing::concat, Packing::documents}) {
    const Folder folder;
    auto options = options_for(folder, {write_lines(folder, "a.jsonl", random_documents(120))}, 32);
    options.data.packing = packing;
    auto dataset = open(options);
    const std::int64_t total = 3 * dataset->size();
    std::map<Numbers, int> seen;
    std::uint64_t seed = 9;
    for (std::int64_t n = 0; n < total;) {
      seed = mix(seed);
      const std::int64_t until = std::min(total, n + 1 + static_cast<std::int64_t>(seed % 40));
      for (; n < until; ++n) ++seen[read(*dataset, n).tokens];
      dataset = open(options);  // nothing but n is carried over
    }
    EXPECT_EQ(std::ssize(seen), total / 3);
    for (const auto& [tokens, count] : seen) EXPECT_EQ(count, 3);
  }
}

TEST(Documents, AreWholeBlindToEachOtherAndEachInOneSample) {
  const Folder folder;
  const std::vector<std::string> documents = random_documents(200);
  auto options = options_for(folder, {write_lines(folder, "a.jsonl", documents)}, 128);
  options.data.packing = Packing::documents;
  const auto dataset = open(options);
  std::multiset<Numbers> found, expected;
  for (const std::string& text : documents) expected.insert(stream_of({text}));
  std::int64_t slots = 0;
  for (std::int64_t n = 0; n < dataset->size(); ++n) {
    const Sample s = read(*dataset, n);
    std::int64_t at = 0, valid = 0;
    for (const std::int32_t length : s.info.document_lengths) {
      for (std::int64_t i = 0; i < length; ++i) ASSERT_EQ(s.positions[at + i], i);
      ASSERT_EQ(s.labels[at + length - 1], kIgnoredLabel);
      const bool filler = length == 1 ? s.tokens[at] == 0 : s.labels[at] == kIgnoredLabel;
      for (std::int64_t i = 0; i + 1 < length; ++i) {
        ASSERT_EQ(s.labels[at + i], filler ? kIgnoredLabel : s.tokens[at + i + 1]);
      }
      if (!filler) {
        found.emplace(s.tokens.begin() + at, s.tokens.begin() + at + length);
        valid += length - 1;
      }
      at += length;
    }
    EXPECT_EQ(at, 128);
    EXPECT_EQ(s.info.valid_tokens, valid);
    slots += 128;
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(static_cast<double>(slots), 1.1 * static_cast<double>(dataset->num_tokens()));
}

TEST(Documents, LongerThanASampleAreCutAndKeepTheLabelAtTheCut) {
  const Folder folder;
  auto options = options_for(folder, {folder.write("a.txt", "abcdefghij")}, 4);
  options.data.packing = Packing::documents;
  options.order = DatasetOptions::Order::sequential;
  const auto dataset = open(options);
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(read(*dataset, 0).labels, (Numbers{'b', 'c', 'd', 'e'}));
  EXPECT_EQ(read(*dataset, 1).positions, (Numbers{0, 1, 2, 3}));
  const Sample last = read(*dataset, 2);
  EXPECT_EQ(last.tokens, (Numbers{'i', 'j', 256, 0}));
  EXPECT_EQ(last.labels, (Numbers{'j', 256, kIgnoredLabel, kIgnoredLabel}));
  EXPECT_EQ(last.info.document_lengths, (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(last.info.valid_tokens, 2);
}

TEST(Documents, PaddedHaveASampleEach) {
  const Folder folder;
  auto options = options_for(folder, {write_lines(folder, "a.jsonl", {"ab", "c"})}, 4);
  options.data.packing = Packing::pad;
  options.order = DatasetOptions::Order::sequential;
  const auto dataset = open(options);
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(read(*dataset, 1).tokens, (Numbers{'c', 256, 0, 0}));
  EXPECT_EQ(read(*dataset, 1).info.document_lengths, (std::vector<std::int32_t>{2, 2}));
}

TEST(Holdout, DividesTheDocumentsAndFollowsTheTextAlone) {
  const Folder folder;
  std::vector<std::string> documents = random_documents(400);
  const auto split = [&](const std::vector<std::string>& in, Split side) {
    auto options = options_for(folder, {write_lines(folder, "a.jsonl", in)}, 128);
    options.evaluation.holdout = 0.25;
    options.data.packing = Packing::pad;
    const auto dataset = open(options, side);
    std::set<Numbers> texts;
    for (std::int64_t n = 0; n < dataset->size(); ++n) {
      const Sample s = read(*dataset, n);
      texts.emplace(s.tokens.begin(), s.tokens.begin() + s.info.document_lengths[0]);
    }
    return texts;
  };
  const auto train = split(documents, Split::train), held = split(documents, Split::holdout);
  EXPECT_EQ(train.size() + held.size(), documents.size());
  EXPECT_NEAR(static_cast<double>(held.size()), 100, 35);
  for (const Numbers& text : held) EXPECT_FALSE(train.contains(text));
  std::reverse(documents.begin(), documents.end());
  EXPECT_EQ(split(documents, Split::holdout), held);
}

TEST(Holdout, NeverTakesNothingAndNeverAll) {
  const Folder folder;
  for (const double fraction : {1e-6, 0.999999}) {
    auto options =
        options_for(folder, {write_lines(folder, "a.jsonl", {"abcdefgh", "ijklmnop", "qrs"})}, 3);
    options.evaluation.holdout = fraction;
    const auto train = open(options, Split::train), held = open(options, Split::holdout);
    EXPECT_EQ(train->num_tokens() + held->num_tokens(), 9 + 9 + 4);
  }
}

TEST(Holdout, OfOneDocumentIsItsTail) {
  const Folder folder;
  auto options = options_for(folder, {folder.write("a.txt", "0123456789abcdefghi")}, 3);
  options.evaluation.holdout = 0.25;
  options.order = DatasetOptions::Order::sequential;
  for (const Packing packing : {Packing::concat, Packing::documents}) {
    options.data.packing = packing;
    const auto train = open(options, Split::train), held = open(options, Split::holdout);
    EXPECT_EQ(train->num_tokens(), 15);
    EXPECT_EQ(held->num_tokens(), 5);
    EXPECT_EQ(read(*held, 0).tokens, (Numbers{'f', 'g', 'h'}));
  }
}

TEST(Holdout, IsTheSourcesOfTheEvaluationWhereThereAreSome) {
  const Folder folder;
  auto options = options_for(folder, {folder.write("a.txt", "0123456789")}, 4);
  options.evaluation.sources =
      options_for(folder, {folder.write("e.txt", "vwxyz")}, 4).data.sources;
  EXPECT_EQ(read(*open(options, Split::holdout), 0).tokens, (Numbers{'v', 'w', 'x', 'y'}));
  EXPECT_EQ(open(options)->num_tokens(), 11);
  options.evaluation.sources.clear();
  EXPECT_THROW(open(options, Split::holdout), DataError);
}

TEST(Sources, AreReadInTheirOrderAndFilesOfOneInSortedOrder) {
  const Folder folder;
  folder.write("b2.txt", "two");
  folder.write("b1.txt", "one");
  const std::string a = folder.write("a.txt", "zero");
  auto options = options_for(folder, {folder / "b*.txt", a}, 4);
  options.order = DatasetOptions::Order::sequential;
  const Numbers stream = stream_of({"one", "two", "zero"});
  const auto dataset = open(options);
  ASSERT_EQ(dataset->num_tokens(), std::ssize(stream));
  EXPECT_EQ(read(*dataset, 1).tokens, Numbers(stream.begin() + 4, stream.begin() + 8));
  EXPECT_EQ(read(*dataset, 1).labels, Numbers(stream.begin() + 5, stream.begin() + 9));
}

TEST(Sources, MayBeShardsOfAnEarlierPreparation) {
  const Folder folder;
  const auto byte = load_tokenizer("byte");
  const auto text = options_for(folder, {folder.write("a.txt", random_text(1, 3000))}, 16);
  const std::string shards = prepare(text, byte);
  const auto direct = options_for(folder, {shards + "/*.tokens"}, 16);
  EXPECT_EQ(prepare(direct, byte), "");
  EXPECT_EQ(data_hash(direct, *byte), data_hash(text, *byte));
  EXPECT_EQ(read(*open(direct), 5).tokens, read(*open(text), 5).tokens);

  Json other = parse_json(byte->files()[0].second, "byte");
  other["model"]["vocab"]["zz"] = 257;
  const auto tokenizer = load_tokenizer(folder.write("other.json", other.dump()));
  const auto what = message_of<DataError>([&] { open_dataset(direct, tokenizer, Split::train); });
  EXPECT_NE(what.find("another tokenizer"), std::string::npos) << what;
}

TEST(Sources, WithADamagedTableAreRefusedWhereItIsWalked) {
  const Folder folder;
  const auto byte = load_tokenizer("byte");
  auto options = options_for(folder, {write_lines(folder, "a.jsonl", random_documents(20))}, 16);
  const std::string path = prepare(options, byte) + "/shard-00000.tokens";
  std::string bytes = files::read_text(path);
  bytes[bytes.size() - 16] = static_cast<char>(bytes[bytes.size() - 16] + 1);
  files::write_text(path, bytes);
  options.data.packing = Packing::documents;
  const auto what = message_of<DataError>([&] { open(options); });
  EXPECT_NE(what.find("shard-00000.tokens"), std::string::npos) << what;
}

TEST(Sources, AreNamedWithTheirPlaceWhenTheyCannotBeRead) {
  const Folder folder;
  const std::string text = folder.write("a.txt", "x");
  folder.write("a.tokens", "x");
  const auto fault = [&](const std::string& path) {
    auto options = options_for(folder, {path}, 4);
    options.data.sources[0].where = "c.yaml:2:3";
    const auto what = message_of<DataError>([&] { open(options); });
    EXPECT_NE(what.find("c.yaml:2:3: data.sources: "), std::string::npos) << what;
    return what;
  };
  EXPECT_NE(fault(folder / "none*").find("matches no file"), std::string::npos);
  EXPECT_NE(fault(folder / "").find("is a folder"), std::string::npos);
  EXPECT_NE(fault(folder / "a.*").find("mixes"), std::string::npos);
  EXPECT_NE(fault(folder.write("a.parquet", "x")).find("not supported yet"), std::string::npos);
}

TEST(Sources, AreNotPreparedWhereThatIsForbidden) {
  const Folder folder;
  auto options = options_for(folder, {folder.write("a.txt", "01234567")}, 4);
  options.prepare = DatasetOptions::Prepare::never;
  options.config_name = "my.yaml";
  const auto what = message_of<DataError>([&] { open(options); });
  EXPECT_NE(what.find("coeus data prepare my.yaml"), std::string::npos) << what;
}

TEST(Sources, OfMuchRawTextOnManyNodesNameTheLineToRun) {
  const Folder folder;
  const std::string path = folder.write("a.txt", "01234567");
  files::File::open_to_write(path).truncate((std::uint64_t{1} << 30) +
                                            1);  // a hole: no disk is used
  auto options = options_for(folder, {path}, 4);
  options.num_nodes = 2;
  const auto what = message_of<DataError>([&] { open(options); });
  EXPECT_NE(what.find("coeus data prepare CONFIG"), std::string::npos) << what;
  EXPECT_NE(what.find("1.0 GiB"), std::string::npos) << what;
}

TEST(DataHash, FollowsContentAndTokenizerButNotPathsOrTimes) {
  const Folder folder;
  const auto byte = load_tokenizer("byte");
  const auto hash = [&](const std::string& path) {
    return data_hash(options_for(folder, {path}, 4), *byte);
  };
  const std::string first = hash(folder.write("a.txt", "some text"));
  EXPECT_EQ(hash(folder.write("b.txt", "some text")), first);
  EXPECT_NE(hash(folder.write("c.txt", "some texT")), first);
}

}  // namespace
}  // namespace coeus::data::test
