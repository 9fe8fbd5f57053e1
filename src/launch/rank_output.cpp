#include "launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace coeus::launch {
namespace {

constexpr std::size_t kTailBytes = 16384;
constexpr std::size_t kTailLines = 20;

// A reader that went away (`coeus train | head`) must not end the run: what is left goes unseen.
void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(to, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(n);
  }
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

files::Path next_attempt(const files::Path& directory, int first_rank, int count) {
  int next = 0;
  if (files::is_directory(directory))
    for (const auto& name : files::list(directory)) {
      int k = -1, length = 0;
      if (std::sscanf(name.c_str(), "attempt-%d%n", &k, &length) != 1 || name.c_str()[length])
        continue;
      for (int rank = first_rank; rank < first_rank + count && k >= next; ++rank)
        if (files::exists(directory / name / fmt::format("rank-{}.log", rank))) next = k + 1;
    }
  const files::Path attempt = directory / fmt::format("attempt-{}", next);
  files::make_directories(attempt);
  return attempt;
}

RankOutput::RankOutput(const files::Path& log_file, ShowOptions show)
    : log_(files::File::create(log_file)), show_(std::move(show)) {
  for (auto& stream : streams_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw FileError(fmt::format("a pipe for {}: {}", log_file.string(), std::strerror(errno)));
    stream.read_end = files::Descriptor(ends[0]);
    stream.write_end = files::Descriptor(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
}

void RankOutput::close_child_ends() {
  for (auto& stream : streams_) stream.write_end.reset();
}

void RankOutput::add_to(std::vector<pollfd>& polled) const {
  for (const auto& stream : streams_)
    if (stream.read_end) polled.push_back({stream.read_end.get(), POLLIN, 0});
}

void RankOutput::pump() {
  char buffer[65536];
  for (auto& stream : streams_) {
    while (stream.read_end) {
      const ssize_t n = ::read(stream.read_end.get(), buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0)
        stream.read_end.reset();
      else
        take(stream, &stream == &streams_[1], {buffer, static_cast<std::size_t>(n)});
    }
  }
}

void RankOutput::finish() {
  pump();
  for (auto& stream : streams_) {
    if (!stream.unfinished.empty()) take(stream, &stream == &streams_[1], "\n");
    stream.read_end.reset();
  }
}

void RankOutput::take(Stream& stream, bool is_error, std::string_view text) {
  log_.write(log_size_, std::as_bytes(std::span(text.data(), text.size())));
  log_size_ += text.size();
  if (is_error) {
    tail_ += text;
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
  if (const int to = is_error ? show_.err : show_.out; to >= 0) show(stream, to, text);
}

void RankOutput::show(Stream& stream, int to, std::string_view text) {
  if (show_.prefix.empty()) return write_all(to, text);
  std::string whole;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;) {
    whole += show_.prefix + stream.unfinished;
    whole += text.substr(0, end + 1);
    stream.unfinished.clear();
    text.remove_prefix(end + 1);
  }
  stream.unfinished += text;
  write_all(to, whole);
}

std::vector<std::string> RankOutput::last_error_lines() const {
  auto lines = split_lines(tail_);
  const auto starts = [](const std::string& line) { return line.rfind("coeus: error: ", 0) == 0; };
  auto first = std::find_if(lines.begin(), lines.end(), starts);
  if (first == lines.end()) first = lines.end() - std::min(lines.size(), kTailLines);
  return {first, lines.end()};
}

}  // namespace coeus::launch
