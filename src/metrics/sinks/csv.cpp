#include <fmt/format.h>

#include <algorithm>

#include "metrics/sinks/append.h"
#include "metrics/sinks/sinks.h"

namespace coeus::metrics {
namespace {

std::vector<std::string> columns() {
  std::vector<std::string> names;
  for (const Json& record : {to_json(StepRecord{}), to_json(ValidationRecord{})}) {
    for (const auto& [name, value] : record.items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// The fields of metrics.jsonl as columns; a field that a line does not have is empty.
class Csv final : public Sink {
 public:
  explicit Csv(files::Path path) : path_(std::move(path)), columns_(columns()) {
    drop_torn_line(path_);
    if (!files::exists(path_) || files::File::open_to_read(path_).size() == 0) {
      files::append_line(path_, fmt::format("{}", fmt::join(columns_, ",")));
    }
  }
  void write(const StepRecord& record) override { append(to_json(record)); }
  void write(const ValidationRecord& record) override { append(to_json(record)); }

 private:
  void append(const Json& record) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += ',';
      const auto value = record.find(columns_[i]);
      const std::string text = value == record.end() ? "null" : value->dump();
      if (text != "null") line += text;
    }
    files::append_line(path_, line);
  }
  files::Path path_;
  std::vector<std::string> columns_;
};

}  // namespace

std::unique_ptr<Sink> make_csv(const SinkPlace& place) {
  return std::make_unique<Csv>(place.run_directory / "metrics.csv");
}

}  // namespace coeus::metrics
