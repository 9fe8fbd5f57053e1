#pragma once
#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace coeus::launch {

// The folder for this start's logs: directory/attempt-K, K after every attempt that holds a log of
// one of the ranks [first_rank, first_rank + count). Nodes that share a file system agree on K as
// long as each keeps its ranks; no log is ever overwritten.
files::Path next_attempt(const files::Path& directory, int first_rank, int count);

struct ShowOptions {
  int out = -1, err = -1;  // descriptors; -1: logged only
  std::string prefix;      // before each shown line
};

// What one rank writes: all of it into its log, to descriptors where it is shown, and the end of
// its stderr kept for the report of a failure.
class RankOutput {
 public:
  RankOutput(const files::Path& log_file, ShowOptions show);
  int child_out() const { return streams_[0].write_end.get(); }
  int child_err() const { return streams_[1].write_end.get(); }
  void close_child_ends();
  void add_to(std::vector<pollfd>& polled) const;  // closed streams are left out
  void pump();                                     // takes what is there, never waits
  void finish();                                   // pumps, then shows unfinished lines
  bool is_shown() const { return show_.err >= 0; }
  const files::Path& log_file() const { return log_.path(); }
  // The lines of stderr from the first "coeus: error: " on, else the last twenty.
  std::vector<std::string> last_error_lines() const;

 private:
  struct Stream {
    files::Descriptor read_end, write_end;
    std::string unfinished;  // a line shown once it is whole
  };
  void take(Stream& stream, bool is_error, std::string_view text);
  void show(Stream& stream, int to, std::string_view text);

  files::File log_;
  std::uint64_t log_size_ = 0;
  ShowOptions show_;
  Stream streams_[2];
  std::string tail_;
};

}  // namespace coeus::launch
