#include "data/sources.h"

#include "base/error.h"

namespace coeus::data {
namespace {

constexpr std::uint64_t kMostTextOnManyNodes = std::uint64_t{1} << 30;

// The files of one source, all of one kind.
struct Source {
  std::string where;
  std::vector<files::Path> shards;
  std::optional<RawText> text;
};

Source find_files(const SourceConfig& config, const std::string& key) {
  Source source{place_of(config, key), {}, {}};
  const std::vector<files::Path> paths = files::glob(config.path);
  if (paths.empty()) throw DataError(source.where + config.path + " matches no file");
  std::vector<files::Path> texts;
  for (const files::Path& path : paths) {
    if (files::is_directory(path)) {
      throw DataError(source.where + path.string() + " is a folder; name its files, as in " +
                      (path / "*.jsonl").string());
    }
    const FileFormat format = format_of(path, source.where);
    (format.kind == FileKind::text ? texts : source.shards).push_back(path);
  }
  if (!texts.empty() && !source.shards.empty()) {
    throw DataError(source.where + config.path + " mixes raw text and token files");
  }
  if (!texts.empty()) source.text.emplace(std::move(texts), source.where);
  return source;
}

PrepareOptions prepare_options(const DatasetOptions& options) {
  return {.cache = options.cache,
          .text_key = options.data.text_key,
          .bos = options.data.bos,
          .eos = options.data.eos,
          .threads = options.prepare_threads};
}

void check_may_prepare(const std::vector<Source>& sources, const DatasetOptions& options,
                       const Tokenizer& tokenizer) {
  std::uint64_t bytes = 0;
  const Source* first = nullptr;
  for (const Source& source : sources) {
    if (!source.text || source.text->is_prepared(prepare_options(options), tokenizer)) continue;
    bytes += source.text->bytes();
    if (first == nullptr) first = &source;
  }
  if (first == nullptr) return;
  const std::string line = "coeus data prepare " + options.config_name;
  if (options.prepare == DatasetOptions::Prepare::never) {
    throw DataError(first->where + "the raw text is not tokenized yet; run: " + line);
  }
  if (options.num_nodes > 1 && bytes > kMostTextOnManyNodes) {
    throw DataError(
        fmt::format("{}{:.1f} GiB of raw text are not tokenized yet, too much to do on "
                    "each of {} nodes; run once: {}",
                    first->where, static_cast<double>(bytes) / (1 << 30), options.num_nodes, line));
  }
}

void open_shard(const files::Path& path, const std::string& where, const Tokenizer& tokenizer,
                Shards& into) {
  auto shard = std::make_shared<const TokenShard>(path);
  if (shard->tokenizer_hash() != hash_of(tokenizer)) {
    throw DataError(where + path.string() + " was written with another tokenizer");
  }
  into.push_back(std::move(shard));
}

}  // namespace

std::string place_of(const SourceConfig& source, const std::string& key) {
  return (source.where.empty() ? "" : source.where + ": ") + key + ": ";
}

OpenedSources open_sources(const std::vector<SourceConfig>& configs, const std::string& key,
                           const DatasetOptions& options, const Tokenizer& tokenizer) {
  std::vector<Source> sources;
  for (const SourceConfig& config : configs) sources.push_back(find_files(config, key));
  check_may_prepare(sources, options, tokenizer);
  OpenedSources opened;
  for (const Source& source : sources) {
    std::vector<files::Path> shards = source.shards;
    if (source.text) {
      source.text->prepare(prepare_options(options), tokenizer);
      const files::Path folder = source.text->folder(prepare_options(options), tokenizer);
      if (!opened.prepared) opened.prepared = folder;
      shards = shards_of(folder);
    }
    for (const files::Path& path : shards) open_shard(path, source.where, tokenizer, opened.shards);
  }
  return opened;
}

}  // namespace coeus::data
