#include <fmt/format.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include <cmath>

#include "metrics/sinks/sinks.h"

namespace coeus::metrics {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// One name: value of the line, and the colour it has on a terminal.
struct Part {
  const char* ansi;
  std::string text;
};
constexpr const char *kRed = "\033[31m", *kGreen = "\033[32m", *kYellow = "\033[33m",
                     *kBlue = "\033[34m", *kMagenta = "\033[35m", *kCyan = "\033[36m",
                     *kWhite = "\033[37m";

std::string with_thousands(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1e15) return fmt::format("{:.0f}", value);
  std::string digits = fmt::format("{:.0f}", value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string as_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t d = total / 86400, h = total / 3600 % 24, m = total / 60 % 60, s = total % 60;
  if (d > 0) return fmt::format("{}d{:02}h", d, h);
  if (h > 0) return fmt::format("{}h{:02}m", h, m);
  if (m > 0) return fmt::format("{}m{:02}s", m, s);
  return fmt::format("{}s", s);
}

// TorchTitan's order and names, so that what greps its lines reads ours.
std::vector<Part> parts_of(const StepRecord& r) {
  std::vector<Part> parts;
  parts.push_back({kRed, r.last_step > 0 ? fmt::format("step: {:2}/{}", r.step, r.last_step)
                                         : fmt::format("step: {:2}", r.step)});
  parts.push_back({kGreen, fmt::format("loss: {:>8.5f}", r.loss)});
  parts.push_back({kYellow, fmt::format("grad_norm: {:>7.4f}", r.grad_norm)});
  if (r.memory_peak_bytes) {
    const double gib = static_cast<double>(*r.memory_peak_bytes) / kGiB;
    const std::string share =
        r.memory_fraction ? fmt::format("({:.2f}%)", 100 * *r.memory_fraction) : "";
    parts.push_back({kCyan, fmt::format("memory: {:5.2f}GiB{}", gib, share)});
  }
  parts.push_back({kBlue, "tps: " + with_thousands(r.tokens_per_second_per_device)});
  if (r.tflops_per_device) {
    parts.push_back({kCyan, fmt::format("tflops: {:.2f}", *r.tflops_per_device)});
  }
  if (r.mfu) parts.push_back({kMagenta, fmt::format("mfu: {:.2f}%", *r.mfu)});
  if (r.eta_seconds) parts.push_back({kWhite, "eta: " + as_duration(*r.eta_seconds)});
  return parts;
}

std::string join(const std::vector<Part>& parts, bool colored) {
  std::string line;
  for (const auto& part : parts) {
    if (!line.empty()) line += "  ";
    line += colored ? part.ansi + part.text + "\033[0m" : part.text;
  }
  return line;
}

bool shows_colors(spdlog::sinks::sink& sink) {
  using Colored = spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>;
  auto* colored = dynamic_cast<Colored*>(&sink);
  return colored != nullptr && colored->should_color();
}

class Console final : public Sink {
 public:
  explicit Console(std::shared_ptr<Logger> logger) : logger_(std::move(logger)) {}
  void write(const StepRecord& record) override { log(parts_of(record)); }
  void write(const ValidationRecord& r) override {
    log({{kRed, fmt::format("validate step: {:2}", r.step)},
         {kGreen, fmt::format("loss: {:>8.5f}", r.validation_loss)},
         {kBlue, "tokens: " + with_thousands(static_cast<double>(r.validation_tokens))}});
  }

 private:
  // The logger's terminal gets colours where it may, its files never: so each of its sinks its own
  // text.
  void log(const std::vector<Part>& parts) {
    constexpr auto level = spdlog::level::info;
    if (!logger_->should_log(level)) return;
    for (const auto& sink : logger_->sinks()) {
      if (!sink->should_log(level)) continue;
      const std::string line = join(parts, shows_colors(*sink));
      sink->log(spdlog::details::log_msg(logger_->name(), level, line));
      sink->flush();
    }
  }
  std::shared_ptr<Logger> logger_;
};

}  // namespace

std::unique_ptr<Sink> make_console(const SinkPlace& place) {
  return std::make_unique<Console>(place.console);
}

}  // namespace coeus::metrics
