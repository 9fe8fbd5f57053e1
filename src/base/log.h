#pragma once
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace coeus {

using Logger = spdlog::logger;

enum class LogColor { automatic, off };
struct LogOptions {
  std::string level = "info";  // trace | debug | info | warn | error | off
  std::string prefix;          // e.g. "[rank3] "
  std::string file;            // also write here, empty = no file
  LogColor color = LogColor::automatic;
};

// A logger to stderr. There is no global one: who logs is handed it.
std::shared_ptr<Logger> make_logger(const LogOptions& options);

}  // namespace coeus
