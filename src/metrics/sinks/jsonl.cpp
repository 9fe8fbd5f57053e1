#include "metrics/sinks/append.h"
#include "metrics/sinks/sinks.h"

namespace coeus::metrics {
namespace {

// One line and one write a record: a reader beside the run never sees half of one.
class Jsonl final : public Sink {
 public:
  explicit Jsonl(files::Path path) : path_(std::move(path)) { drop_torn_line(path_); }
  void write(const StepRecord& record) override {
    files::append_line(path_, to_json(record).dump());
  }
  void write(const ValidationRecord& record) override {
    files::append_line(path_, to_json(record).dump());
  }

 private:
  files::Path path_;
};

}  // namespace

std::unique_ptr<Sink> make_jsonl(const SinkPlace& place) {
  return std::make_unique<Jsonl>(place.run_directory / "metrics.jsonl");
}

}  // namespace coeus::metrics
