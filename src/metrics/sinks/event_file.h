#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"

// TensorBoard's event files: TFRecord frames around hand-encoded Event messages.
// https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto
namespace coeus::metrics {

std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);  // rotated, so that a CRC of CRCs stays useful

// u64 length, u32 masked CRC of it, payload, u32 masked CRC of that.
std::string tfrecord(std::string_view payload);

std::string file_version_event(double wall_time);
using Scalars = std::vector<std::pair<std::string, double>>;
std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars);

class EventFile {
 public:
  explicit EventFile(const files::Path& directory);  // makes a file of its own in it
  void append(const std::string& event);             // one write
  const files::Path& path() const { return file_.path(); }

 private:
  files::File file_;
  std::uint64_t end_ = 0;
};

}  // namespace coeus::metrics
