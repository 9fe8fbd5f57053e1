#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/prepare.h"
#include "data/token_stream.h"

namespace coeus::data {

// What a list of sources opened to.
struct OpenedSources {
  Shards shards;
  std::optional<files::Path> prepared;  // the first folder of the cache among them
};
// Opens token shards and prepares raw text, source after source. `key` names the list in messages:
// data.sources.
OpenedSources open_sources(const std::vector<SourceConfig>& sources, const std::string& key,
                           const DatasetOptions& options, const Tokenizer& tokenizer);

// "file:line:col: key: ", or "key: " where the place is not known.
std::string place_of(const SourceConfig& source, const std::string& key);

}  // namespace coeus::data
