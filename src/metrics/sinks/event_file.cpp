#include "metrics/sinks/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

namespace coeus::metrics {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// Protobuf: a key is field number · 8 + wire type.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}
void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, Wire::bytes);
  append_varint(out, bytes.size());
  out += bytes;
}
void append_double(std::string& out, int field, double value) {
  append_key(out, field, Wire::fixed64);
  append_little_endian(out, std::bit_cast<std::uint64_t>(value));
}
void append_float(std::string& out, int field, double value) {
  append_key(out, field, Wire::fixed32);
  append_little_endian(out, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}

double now() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

files::Path new_path(const files::Path& directory) {
  files::make_directories(directory);
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  for (int n = 0;; ++n) {
    auto path = directory /
                fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}", now(), host.data(), getpid(), n);
    if (!files::exists(path)) return path;
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t c = ~std::uint32_t{0};
  for (const char byte : bytes) c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ c >> 8;
  return ~c;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tfrecord(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(payload.size()));
  append_little_endian(record, masked_crc32c(record));
  record += payload;
  append_little_endian(record, masked_crc32c(payload));
  return record;
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary.
std::string file_version_event(double wall_time) {
  std::string event;
  append_double(event, 1, wall_time);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

// Summary: 1 value; Value: 1 tag, 2 simple_value.
std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string message;
    append_bytes(message, 1, tag);
    append_float(message, 2, value);
    append_bytes(summary, 1, message);
  }
  std::string event;
  append_double(event, 1, wall_time);
  append_key(event, 2, Wire::varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(const files::Path& directory)
    : file_(files::File::create(new_path(directory))) {
  append(file_version_event(now()));
}

void EventFile::append(const std::string& event) {
  const std::string record = tfrecord(event);
  file_.write(end_, std::as_bytes(std::span(record)));
  end_ += record.size();
}

}  // namespace coeus::metrics
