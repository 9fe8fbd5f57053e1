#include "data/prepare.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "data/shard.h"

namespace coeus::data {
namespace {

constexpr int kCacheVersion = 1;
constexpr std::uint64_t kMostParts = 4096;  // of larger data the parts grow

std::string shard_name(std::size_t part) {
  return fmt::format("shard-{:05}.tokens", part);
}

std::int64_t modification_time(const files::Path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? -1 : static_cast<std::int64_t>(time.time_since_epoch().count());
}

bool writes_bos(const PrepareOptions& options, const Tokenizer& tokenizer) {
  return options.bos == BosPolicy::on ||
         (options.bos == BosPolicy::automatic && tokenizer.adds_bos());
}

bool can_reuse(const files::Path& path, const Tokenizer& tokenizer) {
  if (!files::exists(path)) return false;
  try {
    const TokenShard shard(path);
    return shard.tokenizer_hash() == hash_of(tokenizer) && shard.is_intact();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::uint64_t hash_of(const Tokenizer& tokenizer) {
  const std::string hash = tokenizer.hash();
  return files::hash(std::as_bytes(std::span(hash)));
}

void check_special_tokens(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (options.eos && !tokenizer.eos_id()) {
    throw DataError("data.eos: the tokenizer names no EOS token; data.eos: false goes without");
  }
  if (writes_bos(options, tokenizer) && !tokenizer.bos_id()) {
    throw DataError("data.bos: the tokenizer names no BOS token; data.bos: off goes without");
  }
}

RawText::RawText(std::vector<files::Path> paths, const std::string& where) {
  for (files::Path& path : paths) {
    const FileFormat format = format_of(path, where);
    COEUS_ASSERT(format.kind == FileKind::text, "{}", path.string());
    const std::uint64_t bytes = files::File::open_to_read(path).size();
    bytes_ += bytes;
    const std::int64_t modified = modification_time(path);
    files_.push_back({std::move(path), bytes, modified, format.text});
  }
}

files::Path RawText::folder(const PrepareOptions& options, const Tokenizer& tokenizer) const {
  std::string identity =
      fmt::format("{};{};{};{};{};{};", kCacheVersion, tokenizer.hash(), options.text_key,
                  writes_bos(options, tokenizer), options.eos, options.part_bytes);
  for (const File& file : files_) {
    const std::string path = std::filesystem::weakly_canonical(file.path).string();
    identity += fmt::format("{}:{};{};{};", path.size(), path, file.bytes, file.modified);
  }
  return files::Path(options.cache) / files::hash_hex(identity);
}

bool RawText::is_prepared(const PrepareOptions& options, const Tokenizer& tokenizer) const {
  return files::exists(folder(options, tokenizer) / "manifest.json");
}

std::vector<RawText::Part> RawText::cut(std::uint64_t part_bytes) const {
  part_bytes = std::max(part_bytes, bytes_ / kMostParts + 1);
  std::vector<Part> parts(1);
  const auto add = [&](std::size_t file, ByteRange range) {
    if (parts.back().bytes >= part_bytes) parts.emplace_back();
    parts.back().spans.push_back({file, range});
    parts.back().bytes += range.end - range.begin;
  };
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::uint64_t end = files_[f].bytes;
    const std::uint64_t step =
        files_[f].format->cut == TextFormat::Cut::anywhere ? part_bytes : end;
    for (std::uint64_t begin = 0; begin < end; begin += step) {
      add(f, {begin, std::min(begin + step, end)});
    }
  }
  return parts;
}

void RawText::check_unchanged() const {
  for (const File& file : files_) {
    if (files::File::open_to_read(file.path).size() != file.bytes ||
        modification_time(file.path) != file.modified) {
      throw DataError(file.path.string() + ": changed while it was tokenized; start again");
    }
  }
}

// One preparation: threads take parts in order and write a shard each.
class RawText::Job {
 public:
  Job(const RawText& text, const PrepareOptions& options, const Tokenizer& tokenizer,
      files::Path folder)
      : text_(text),
        options_(options),
        tokenizer_(tokenizer),
        folder_(std::move(folder)),
        parts_(text.cut(options.part_bytes)),
        progress_("tokenizing", text.bytes(), "bytes") {}

  std::size_t run() {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const auto wanted = options_.threads > 0 ? static_cast<std::size_t>(options_.threads) : cores;
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(wanted, parts_.size()); ++i) {
      threads.emplace_back([this] { work(); });
    }
    work();
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
    progress_.finish();
    return parts_.size();
  }

 private:
  void work() {
    for (std::size_t part; !failed_ && (part = next_++) < parts_.size();) {
      try {
        const files::Path path = folder_ / shard_name(part);
        if (!can_reuse(path, tokenizer_)) write(parts_[part], path);
        progress_.set(done_ += parts_[part].bytes);
      } catch (...) {
        // Parts are taken in order: the first of the failing ones is the same in every run.
        const std::lock_guard lock(mutex_);
        if (part < failed_part_) {
          failed_part_ = part;
          failure_ = std::current_exception();
        }
        failed_ = true;
      }
    }
  }

  void write(const Part& part, const files::Path& path) const {
    ShardContent content;
    for (const Span& span : part.spans) {
      const File& source = text_.files_[span.file];
      const files::MappedFile file(source.path);
      if (file.bytes().size() != source.bytes) text_.check_unchanged();
      source.format->read(file, span.range, options_.text_key, [&](std::string_view text) {
        try {
          add(text, content);
        } catch (const DataError& e) {
          throw DataError(source.path.string() + ": " + e.what());
        }
      });
    }
    write_shard(path, content, tokenizer_.vocab_size(), hash_of(tokenizer_));
  }

  void add(std::string_view text, ShardContent& content) const {
    if (text.empty()) return;
    const std::vector<std::int32_t> ids = tokenizer_.encode(text);
    const std::size_t before = content.tokens.size();
    if (writes_bos(options_, tokenizer_)) content.tokens.push_back(*tokenizer_.bos_id());
    content.tokens.insert(content.tokens.end(), ids.begin(), ids.end());
    if (options_.eos) content.tokens.push_back(*tokenizer_.eos_id());
    content.documents.push_back(
        {content.tokens.size() - before, files::hash(std::as_bytes(std::span(text)))});
  }

  const RawText& text_;
  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const files::Path folder_;
  const std::vector<Part> parts_;
  Progress progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::size_t failed_part_ = SIZE_MAX;
  std::exception_ptr failure_;
};

void RawText::prepare(const PrepareOptions& options, const Tokenizer& tokenizer) const {
  if (is_prepared(options, tokenizer)) return;
  check_special_tokens(options, tokenizer);
  const files::Path target = folder(options, tokenizer);
  const std::string name = target.filename().string();
  const files::Path temporary = target.parent_path() / (name + ".tmp");
  files::make_directories(options.cache);
  const auto lock = files::Lock::acquire(target.parent_path() / (name + ".lock"));
  if (is_prepared(options, tokenizer)) return;
  files::make_directories(temporary);
  const std::size_t num_shards = Job(*this, options, tokenizer, temporary).run();
  check_unchanged();
  for (const std::string& left : files::list(temporary)) {  // of a killed writer
    if (left.find(".part-") != std::string::npos) files::remove(temporary / left);
  }
  Json sources = Json::array();
  for (const File& file : files_) {
    sources.push_back({{"path", file.path.string()}, {"bytes", file.bytes}});
  }
  const Json manifest = {{"version", kCacheVersion},
                         {"tokenizer", tokenizer.hash()},
                         {"shards", num_shards},
                         {"sources", sources}};
  files::write_atomic(temporary / "manifest.json", manifest.dump(2) + "\n");
  files::remove_all(target);  // without a manifest it is nobody's
  files::rename(temporary, target);
  files::sync_directory(target.parent_path());
}

std::vector<files::Path> shards_of(const files::Path& folder) {
  const files::Path path = folder / "manifest.json";
  const Json manifest = parse_json<DataError>(files::read_text(path), path.string());
  std::vector<files::Path> shards;
  try {
    const auto count = manifest.at("shards").get<std::size_t>();
    if (count > 2 * kMostParts) throw DataError(path.string() + ": more shards than can be");
    for (std::size_t i = 0; i < count; ++i) shards.push_back(folder / shard_name(i));
  } catch (const Json::exception& e) {
    throw DataError(path.string() + ": " + e.what());
  }
  return shards;
}

}  // namespace coeus::data
