#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <vector>

#include "base/error.h"

namespace coeus {
namespace {

// "warning: " before what deserves attention, nothing before the rest.
class Severity : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& into) override {
    const std::string_view word = message.level >= spdlog::level::err     ? "error: "
                                  : message.level == spdlog::level::warn  ? "warning: "
                                  : message.level <= spdlog::level::debug ? "debug: "
                                                                          : "";
    into.append(word.data(), word.data() + word.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Severity>();
  }
};

std::string escape_pattern(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '%' ? "%%" : std::string(1, c);
  return escaped;
}

}  // namespace

std::shared_ptr<Logger> make_logger(const LogOptions& options) {
  const auto level = spdlog::level::from_str(options.level);
  if (level == spdlog::level::off && options.level != "off") {
    throw UsageError(fmt::format("log level '{}' is none of trace, debug, info, warn, error, off",
                                 options.level));
  }
  const auto color =
      options.color == LogColor::off ? spdlog::color_mode::never : spdlog::color_mode::automatic;
  std::vector<spdlog::sink_ptr> sinks;
  sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color));
  if (!options.file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    } catch (const spdlog::spdlog_ex& e) {
      throw FileError(e.what());
    }
  }
  auto logger = std::make_shared<Logger>("coeus", sinks.begin(), sinks.end());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Severity>('*').set_pattern("%H:%M:%S " + escape_pattern(options.prefix) +
                                                 "%^%*%$%v");
  logger->set_formatter(std::move(formatter));
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  return logger;
}

}  // namespace coeus
