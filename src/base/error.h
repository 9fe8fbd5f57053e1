#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace coeus {

// What the process returns; see docs/exit_codes.md.
enum class ExitCode : int {
  finished = 0,
  failed = 1,
  usage = 2,  // also: configuration
  data = 3,
  checkpoint = 4,
  communication = 5,
  saved = 75,       // saved, start me again
  crash_loop = 93,  // do not start me again
};

// What a user or the world can cause. The text names the file, key, rank or operation concerned, in
// one line per fault.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};
struct UsageError : Error {
  explicit UsageError(const std::string& what) : Error(ExitCode::usage, what) {}
};
struct ConfigError : Error {
  explicit ConfigError(const std::string& what) : Error(ExitCode::usage, what) {}
};
struct DataError : Error {
  explicit DataError(const std::string& what) : Error(ExitCode::data, what) {}
};
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& what) : Error(ExitCode::checkpoint, what) {}
};
struct CommError : Error {
  explicit CommError(const std::string& what) : Error(ExitCode::communication, what) {}
};
struct FileError : Error {  // the operating system refused; names the path and errno's text
  explicit FileError(const std::string& what) : Error(ExitCode::failed, what) {}
};

// A bug of ours, never a user's fault.
struct AssertionError : std::logic_error {
  using std::logic_error::logic_error;
};
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& why);

}  // namespace coeus

#define COEUS_ASSERT(condition, ...)                                                          \
  do {                                                                                        \
    if (!(condition))                                                                         \
      ::coeus::assertion_failed(#condition, __FILE__, __LINE__, fmt::format("" __VA_ARGS__)); \
  } while (0)
