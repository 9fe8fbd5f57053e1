#include "data/shard.h"

#include <cstring>

#include "tests/data/support.h"

namespace coeus::data::test {
namespace {

ShardContent content_of(std::int32_t num_tokens, std::int32_t vocab_size) {
  ShardContent content;
  for (std::int32_t i = 0; i < num_tokens; ++i) content.tokens.push_back(i * 37 % vocab_size);
  for (std::int32_t i = 0; i + 3 <= num_tokens; i += 3) content.documents.push_back({3, 11u + i});
  return content;
}

// Puts a number into the header and makes the header's own hash right again.
template <class Number>
std::string with_header(std::string bytes, std::size_t offset, Number value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  const std::uint64_t hash = files::hash(std::as_bytes(std::span(bytes)).first(56));
  std::memcpy(bytes.data() + 56, &hash, sizeof hash);
  return bytes;
}

TEST(TokenShard, GivesBackWhatWasWrittenInTwoAndFourBytes) {
  const Folder folder;
  for (const std::int32_t vocab_size : {1000, 65536, 65537, 200000}) {
    const ShardContent content = content_of(999, vocab_size);
    const std::string path = folder / "a.tokens";
    write_shard(path, content, vocab_size, 77);
    const TokenShard shard(path);
    EXPECT_EQ(shard.num_tokens(), 999);
    EXPECT_EQ(shard.vocab_size(), vocab_size);
    EXPECT_EQ(shard.tokenizer_hash(), 77u);
    EXPECT_EQ(shard.documents().size(), 333u);
    EXPECT_EQ(shard.documents()[2].num_tokens, 3u);
    EXPECT_EQ(shard.documents()[2].text_hash, 17u);
    std::vector<std::int64_t> tokens(998);
    shard.read(1, tokens);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), content.tokens.begin() + 1));
    EXPECT_TRUE(shard.is_intact());
    EXPECT_EQ(files::list(files::Path(path).parent_path()), std::vector<std::string>{"a.tokens"});
  }
}

TEST(TokenShard, MayHoldNothing) {
  const Folder folder;
  write_shard(folder / "a.tokens", {}, 10, 0);
  const TokenShard shard(folder / "a.tokens");
  EXPECT_EQ(shard.num_tokens(), 0);
  EXPECT_TRUE(shard.is_intact());
}

TEST(TokenShard, RefusesEveryTruncationAndEveryFlippedBitOfItsHeader) {
  const Folder folder;
  const std::string path = folder / "a.tokens";
  write_shard(path, content_of(9, 1000), 1000, 77);
  const std::string bytes = files::read_text(path);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    files::write_text(path, std::string_view(bytes).substr(0, size));
    EXPECT_THROW(TokenShard{path}, DataError) << size;
  }
  files::write_text(path, bytes + "x");
  EXPECT_THROW(TokenShard{path}, DataError);
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    files::write_text(path, flipped);
    const auto what = message_of<DataError>([&] { TokenShard{path}; });
    EXPECT_NE(what.find(path), std::string::npos) << what;
  }
  for (std::size_t byte = 64; byte < bytes.size(); ++byte) {
    std::string flipped = bytes;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 1);
    files::write_text(path, flipped);
    EXPECT_FALSE(TokenShard{path}.is_intact()) << byte;
  }
}

TEST(TokenShard, RefusesHostileNumbersWhoseHashIsRight) {
  const Folder folder;
  const std::string path = folder / "a.tokens";
  write_shard(path, content_of(9, 1000), 1000, 77);
  const std::string bytes = files::read_text(path);
  files::write_text(path, with_header(bytes, 16, std::uint64_t{9}));
  EXPECT_EQ(TokenShard{path}.num_tokens(), 9) << "the helper makes valid headers";
  const std::uint64_t huge[] = {13,
                                1u << 31,
                                std::uint64_t{1} << 56,
                                std::uint64_t{1} << 62,
                                std::uint64_t{1} << 63,
                                ~std::uint64_t{0},
                                ~std::uint64_t{0} / 2};
  for (const std::uint64_t number : huge) {
    files::write_text(path, with_header(bytes, 16, number));
    EXPECT_THROW(TokenShard{path}, DataError) << "tokens " << number;
    files::write_text(path, with_header(bytes, 24, number));
    EXPECT_THROW(TokenShard{path}, DataError) << "documents " << number;
  }
  for (const std::uint64_t number : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    files::write_text(path, with_header(bytes, 32, number));
    EXPECT_THROW(TokenShard{path}, DataError) << "vocabulary " << number;
  }
  for (const std::uint32_t number : {0u, 1u, 3u, 8u, 4u, ~0u}) {
    files::write_text(path, with_header(bytes, 12, number));
    EXPECT_THROW(TokenShard{path}, DataError) << "bytes per token " << number;
  }
  files::write_text(path, with_header(bytes, 8, 2u));
  EXPECT_NE(message_of<DataError>([&] { TokenShard{path}; }).find("version 2"), std::string::npos);
}

TEST(TokenShard, RefusesAnIdThatIsNotInTheVocabulary) {
  const Folder folder;
  const std::string path = folder / "a.tokens";
  write_shard(path, content_of(9, 1000), 1000, 77);
  files::write_text(path, with_header(files::read_text(path), 32, std::uint64_t{38}));
  const TokenShard shard(path);
  std::vector<std::int64_t> tokens(2);
  shard.read(0, tokens);  // 0, 37
  const auto what = message_of<DataError>([&] { shard.read(1, tokens); });
  EXPECT_NE(what.find(path), std::string::npos) << what;
  EXPECT_NE(what.find("74"), std::string::npos) << what;
}

TEST(TokenShard, IsNotIntactWhenItsTableDoesNotAddUp) {
  const Folder folder;
  const std::string path = folder / "a.tokens";
  ShardContent content = content_of(9, 1000);
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{0}, ~std::uint64_t{0} - 2}) {
    content.documents[1].num_tokens = count;
    write_shard(path, content, 1000, 77);
    EXPECT_FALSE(TokenShard{path}.is_intact()) << count;
  }
}

}  // namespace
}  // namespace coeus::data::test
