#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace coeus::files {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const Path& path, std::string_view what, int code) {
  throw FileError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(code)));
}
[[noreturn]] void fail(const Path& path, std::string_view what) {
  fail(path, what, errno);
}

Descriptor open_file(const Path& path, int flags, std::string_view what) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) fail(path, what);
  return Descriptor(fd);
}

void write_all(int fd, const Path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void sync_descriptor(int fd, const Path& path) {
  if (::fsync(fd) != 0) fail(path, "cannot sync");
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Path parent_of(const Path& path) {
  const Path parent = path.parent_path();
  return parent.empty() ? Path(".") : parent;
}

}  // namespace

void close_descriptor(int fd) noexcept {
  ::close(fd);
}

File File::open_to_read(const Path& path) {
  if (files::is_directory(path)) fail(path, "cannot open", EISDIR);
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored))  // opening one waits for a writer
    throw FileError(fmt::format("{}: cannot open: a pipe, not a file", path.string()));
  return {open_file(path, O_RDONLY, "cannot open"), path};
}

File File::create(const Path& path) {
  return {open_file(path, O_RDWR | O_CREAT | O_TRUNC, "cannot create"), path};
}

File File::open_to_write(const Path& path) {
  return {open_file(path, O_RDWR, "cannot open to write"), path};
}

std::uint64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) fail(path_, "cannot stat");
  return static_cast<std::uint64_t>(info.st_size);
}

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot read");
    if (n == 0) {
      throw FileError(fmt::format("{}: ends at byte {}, {} more were expected", path_.string(),
                                  offset, into.size()));
    }
    offset += static_cast<std::uint64_t>(n);
    into = into.subspan(static_cast<std::size_t>(n));
  }
}

void File::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot write");
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void File::truncate(std::uint64_t size) const {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) fail(path_, "cannot truncate");
}

void File::sync() const {
  sync_descriptor(fd_.get(), path_);
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const File file = File::open_to_read(path);
  const std::uint64_t size = file.size();
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (address == MAP_FAILED) fail(path, "cannot map");
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string_view MappedFile::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

std::string read_text(const Path& path, std::uint64_t max_bytes) {
  const File file = File::open_to_read(path);
  const std::uint64_t size = file.size();
  if (size > max_bytes) {
    throw FileError(
        fmt::format("{}: {} bytes, more than the {} allowed", path.string(), size, max_bytes));
  }
  std::string text(size, '\0');
  file.read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_text(const Path& path, std::string_view text) {
  File::create(path).write(0, as_bytes(text));
}

void write_atomic(const Path& path, std::string_view text) {
  static std::atomic<unsigned> count{0};  // threads of one process may write the same file
  Path temporary = path;
  temporary += fmt::format(".tmp-{}-{}", ::getpid(), count++);
  try {
    const File file = File::create(temporary);
    file.write(0, as_bytes(text));
    file.sync();
    files::rename(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(parent_of(path));
}

void append_line(const Path& path, std::string_view line) {
  const Descriptor fd = open_file(path, O_WRONLY | O_CREAT | O_APPEND, "cannot open to append");
  std::string text(line);
  text += '\n';
  write_all(fd.get(), path, as_bytes(text));
}

void sync_directory(const Path& path) {
  const Descriptor fd = open_file(path, O_RDONLY | O_DIRECTORY, "cannot open");
  sync_descriptor(fd.get(), path);
}

void rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot rename to " + to.string());
}

void make_directories(const Path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) fail(path, "cannot make the folder", code.value());
}

void remove_all(const Path& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code) fail(path, "cannot remove", code.value());
}

void remove(const Path& path) {
  std::error_code code;
  fs::remove(path, code);
  if (code) fail(path, "cannot remove", code.value());
}

bool exists(const Path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

bool is_directory(const Path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void check_writable_directory(const Path& path) {
  make_directories(path);
  const Path probe = path / fmt::format(".probe-{}", ::getpid());
  write_text(probe, "probe");
  files::remove(probe);
}

std::vector<std::string> list(const Path& directory) {
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    names.push_back(it->path().filename().string());
  }
  if (code) fail(directory, "cannot list", code.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t free_bytes(const Path& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) fail(path, "cannot stat the file system");
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

Lock Lock::acquire(const Path& path) {
  Descriptor fd = open_file(path, O_RDWR | O_CREAT, "cannot open to lock");
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail(path, "cannot lock");
  }
  return Lock(std::move(fd));
}

bool Lock::is_held(const Path& path) {
  if (!files::exists(path)) return false;
  const Descriptor fd = open_file(path, O_RDONLY, "cannot open");
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string hash_hex(std::string_view bytes) {
  return fmt::format("{:016x}", hash(as_bytes(bytes)));
}

}  // namespace coeus::files
