#include "data/shard.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace coeus::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

constexpr char kMagic[8] = {'C', 'O', 'E', 'U', 'S', 'T', 'O', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 56;  // products below cannot overflow

struct Header {
  char magic[8];
  std::uint32_t version, bytes_per_token;
  std::uint64_t num_tokens, num_documents, vocab_size, tokenizer_hash, content_hash;
  std::uint64_t header_hash;  // of all bytes before it
};
static_assert(sizeof(Header) == 64);

std::uint64_t hash_of(const Header& header) {
  return files::hash(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_hash)));
}

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

std::vector<std::byte> body_of(const ShardContent& content, std::uint32_t bytes_per_token) {
  const std::size_t table = padded(content.tokens.size() * bytes_per_token);
  const auto documents = std::as_bytes(std::span(content.documents));
  std::vector<std::byte> body(table + documents.size());
  if (bytes_per_token == 2) {
    auto* ids = reinterpret_cast<std::uint16_t*>(body.data());
    std::copy(content.tokens.begin(), content.tokens.end(), ids);
  } else if (!content.tokens.empty()) {
    std::memcpy(body.data(), content.tokens.data(), content.tokens.size() * 4);
  }
  std::copy(documents.begin(), documents.end(), body.begin() + table);
  return body;
}

}  // namespace

void write_shard(const files::Path& path, const ShardContent& content, std::int64_t vocab_size,
                 std::uint64_t tokenizer_hash) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.bytes_per_token = vocab_size <= 65536 ? 2 : 4;
  header.num_tokens = content.tokens.size();
  header.num_documents = content.documents.size();
  header.vocab_size = static_cast<std::uint64_t>(vocab_size);
  header.tokenizer_hash = tokenizer_hash;
  const std::vector<std::byte> body = body_of(content, header.bytes_per_token);
  header.content_hash = files::hash(body);
  header.header_hash = hash_of(header);

  files::Path temporary = path;
  temporary += fmt::format(".part-{}", ::getpid());
  {
    const files::File file = files::File::create(temporary);
    file.write(0, std::as_bytes(std::span(&header, 1)));
    file.write(sizeof header, body);
    file.sync();
  }
  files::rename(temporary, path);
}

TokenShard::TokenShard(const files::Path& path) : file_(path) {
  const auto fail = [&](const std::string& what) {
    throw DataError(path.string() + ": not a token shard of Coeus: " + what);
  };
  const std::span<const std::byte> bytes = file_.bytes();
  Header header;
  if (bytes.size() < sizeof header) fail("shorter than a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) fail("it begins otherwise");
  if (header.version != kVersion) fail(fmt::format("version {} is not known", header.version));
  if (header.header_hash != hash_of(header)) fail("its header is damaged");
  if (header.bytes_per_token != 2 && header.bytes_per_token != 4) {
    fail(fmt::format("{} bytes a token", header.bytes_per_token));
  }
  if (header.num_tokens > kMostTokens || header.num_documents > header.num_tokens ||
      header.vocab_size == 0 || header.vocab_size > std::uint64_t{1} << 31) {
    fail("its header names impossible sizes");
  }
  const std::uint64_t table = sizeof header + padded(header.num_tokens * header.bytes_per_token);
  const std::uint64_t end = table + header.num_documents * sizeof(Document);
  if (bytes.size() != end) {
    fail(fmt::format("{} bytes long, {} by its header", bytes.size(), end));
  }
  num_tokens_ = static_cast<std::int64_t>(header.num_tokens);
  vocab_size_ = static_cast<std::int64_t>(header.vocab_size);
  bytes_per_token_ = header.bytes_per_token;
  tokenizer_hash_ = header.tokenizer_hash;
  content_hash_ = header.content_hash;
  documents_ = {reinterpret_cast<const Document*>(bytes.data() + table), header.num_documents};
}

void TokenShard::read(std::int64_t begin, std::span<std::int64_t> into) const {
  COEUS_ASSERT(begin >= 0 && begin <= num_tokens_ - std::ssize(into), "{}: tokens {} and {} more",
               path().string(), begin, into.size());
  if (bytes_per_token_ == 2) {
    copy<std::uint16_t>(begin, into);
  } else {
    copy<std::uint32_t>(begin, into);
  }
}

template <class Id>
void TokenShard::copy(std::int64_t begin, std::span<std::int64_t> into) const {
  const auto* ids = reinterpret_cast<const Id*>(file_.bytes().data() + sizeof(Header)) + begin;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = ids[i];
    largest = std::max(largest, into[i]);
  }
  if (largest >= vocab_size_) {
    throw DataError(fmt::format("{}: token id {} within {} tokens from {} on is not below {}",
                                path().string(), largest, into.size(), begin, vocab_size_));
  }
}

bool TokenShard::is_intact() const {
  if (files::hash(file_.bytes().subspan(sizeof(Header))) != content_hash_) return false;
  std::uint64_t sum = 0;
  for (const Document& document : documents_) {
    if (document.num_tokens == 0 || document.num_tokens > kMostTokens) return false;
    sum += document.num_tokens;
    if (sum > kMostTokens) return false;
  }
  return sum == static_cast<std::uint64_t>(num_tokens_);
}

}  // namespace coeus::data
