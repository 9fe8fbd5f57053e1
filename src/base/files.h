#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.h"

// The only door to the file system. Every failure throws FileError with the path and errno's text.
namespace coeus::files {

using Path = std::filesystem::path;

void close_descriptor(int fd) noexcept;
using Descriptor = UniqueHandle<int, close_descriptor, -1>;

// An open file; reads and writes are positional, so threads and ranks may share one.
class File {
 public:
  static File open_to_read(const Path& path);
  static File create(const Path& path);         // truncates
  static File open_to_write(const Path& path);  // must exist
  std::uint64_t size() const;
  void read(std::uint64_t offset,
            std::span<std::byte> into) const;  // throws if the file ends before
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void truncate(std::uint64_t size) const;
  void sync() const;
  int descriptor() const { return fd_.get(); }
  const Path& path() const { return path_; }

 private:
  File(Descriptor fd, Path path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Descriptor fd_;
  Path path_;
};

// A whole file mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const;
  const Path& path() const { return path_; }

 private:
  Path path_;
  std::span<const std::byte> bytes_;
};

std::string read_text(const Path& path, std::uint64_t max_bytes = std::uint64_t{1} << 31);
void write_text(const Path& path, std::string_view text);  // create or replace, not synced
void write_atomic(const Path& path,
                  std::string_view text);  // temporary file, fsync, rename, fsync of the folder
void append_line(const Path& path,
                 std::string_view line);  // O_APPEND, one write(2), adds the newline
void sync_directory(const Path& path);
void rename(const Path& from, const Path& to);
void make_directories(const Path& path);
void remove_all(const Path& path);
void remove(const Path& path);
bool exists(const Path& path);
bool is_directory(const Path& path);
void check_writable_directory(const Path& path);       // makes it, writes and removes a probe file
std::vector<std::string> list(const Path& directory);  // names, sorted
std::vector<Path> glob(
    const std::string& pattern);  // *, ?, [..] and ** ; sorted; a plain path matches itself
std::uint64_t free_bytes(const Path& path);

// An exclusive advisory lock on a file, held until destruction; makes the file.
class Lock {
 public:
  static Lock acquire(const Path& path);  // waits
  static bool is_held(const Path& path);

 private:
  explicit Lock(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);  // XXH3-64
std::string hash_hex(std::string_view bytes);

}  // namespace coeus::files
